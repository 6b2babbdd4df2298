#ifndef SANGAM_CLIENT_CALL_QUEUE_H_
#define SANGAM_CLIENT_CALL_QUEUE_H_

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace sangam {

// How a call ended: by the peer or the network (`rpc`), or because we gave it up (`stop`, not OK).
struct CallOutcome {
  absl::Status stop;
  absl::Status rpc;
};

// A completion queue for one operation at a time. Waiting for it does not block the thread: a
// function is called some twenty times a second, and can end the call. Not thread-safe.
class CallQueue {
 public:
  explicit CallQueue(std::function<absl::Status()> idle) : idle_(std::move(idle)) {}
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  grpc::CompletionQueue* queue() { return &queue_; }

  // Waits until the operation that was started on the queue has completed; its tag does not matter.
  // *ok is the completion's flag. When `idle` fails, cancels the call of `context`, waits for the
  // completion all the same, and returns the error.
  absl::Status Await(grpc::ClientContext* context, bool* ok);

 private:
  const std::function<absl::Status()> idle_;
  grpc::CompletionQueue queue_;
};

}  // namespace sangam

#endif  // SANGAM_CLIENT_CALL_QUEUE_H_
