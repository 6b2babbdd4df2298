#include "common/rpc/completion_queue_thread.h"

#include <grpcpp/completion_queue.h>

#include <memory>
#include <thread>
#include <utility>

#include "common/rpc/completion_tag.h"

namespace sangam {

CompletionQueueThread::CompletionQueueThread(std::unique_ptr<grpc::CompletionQueue> queue)
    : queue_(std::move(queue)) {}

CompletionQueueThread::~CompletionQueueThread() { Shutdown(); }

void CompletionQueueThread::Start() {
  thread_ = std::thread([this] { Run(); });
}

void CompletionQueueThread::Shutdown() {
  if (shut_down_) return;
  shut_down_ = true;
  queue_->Shutdown();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    // gRPC wants a queue drained before it is destroyed, also one whose thread never ran.
    Run();
  }
}

void CompletionQueueThread::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) static_cast<CompletionTag*>(tag)->Complete(ok);
}

}  // namespace sangam
