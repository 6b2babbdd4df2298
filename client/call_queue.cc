#include "client/call_queue.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <chrono>

#include "absl/status/status.h"
#include "common/base/check.h"

namespace sangam {
namespace {

constexpr std::chrono::milliseconds kIdlePeriod{50};

}  // namespace

CallQueue::~CallQueue() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

absl::Status CallQueue::Await(grpc::ClientContext* context, bool* ok) {
  absl::Status stop;
  void* tag = nullptr;
  while (true) {
    const auto until = std::chrono::system_clock::now() + kIdlePeriod;
    const grpc::CompletionQueue::NextStatus next = queue_.AsyncNext(&tag, ok, until);
    if (next == grpc::CompletionQueue::GOT_EVENT) return stop;
    // Shutdown happens in the destructor only.
    SANGAM_CHECK(next == grpc::CompletionQueue::TIMEOUT);
    if (!stop.ok()) continue;
    stop = idle_();
    if (!stop.ok()) context->TryCancel();
  }
}

}  // namespace sangam
