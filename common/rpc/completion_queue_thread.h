#ifndef SANGAM_COMMON_RPC_COMPLETION_QUEUE_THREAD_H_
#define SANGAM_COMMON_RPC_COMPLETION_QUEUE_THREAD_H_

#include <grpcpp/completion_queue.h>

#include <memory>
#include <thread>

#include "common/rpc/completion_tag.h"

namespace sangam {

// A completion queue and the one thread that completes what is posted on it. With one thread to a
// queue, completions of one queue never run at the same time.
class CompletionQueueThread {
 public:
  // `queue`: also a server's.
  explicit CompletionQueueThread(std::unique_ptr<grpc::CompletionQueue> queue);
  // Calls Shutdown.
  ~CompletionQueueThread();

  // Starts the thread.
  void Start();

  // Waits until everything that was posted has completed and the thread has ended.
  // REQUIRES: nothing is posted from now on (gRPC ends the process otherwise), and what is pending
  // was cancelled or is about to complete. Not called on the thread itself.
  void Shutdown();

  grpc::CompletionQueue* queue() { return queue_.get(); }

 private:
  void Run();

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  std::thread thread_;
  bool shut_down_ = false;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_COMPLETION_QUEUE_THREAD_H_
