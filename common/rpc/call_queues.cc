#include "common/rpc/call_queues.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/rpc/data_channel.h"

namespace sangam {
namespace {

// Longer than any call takes to end once the server has cancelled it.
constexpr absl::Duration kStopDeadline = absl::Minutes(1);

}  // namespace

CallQueues::CallQueues(const Options& options)
    : options_(options), registry_(options.max_calls, options.counts) {
  SANGAM_CHECK(options.threads >= 1);
}

CallQueues::~CallQueues() { Stop(); }

void CallQueues::Register(grpc::ServerBuilder* builder, grpc::Service* service) {
  ConfigureDataServer(builder);
  builder->RegisterService(service);
  for (int i = 0; i < options_.threads; ++i) {
    std::unique_ptr<grpc::ServerCompletionQueue> queue = builder->AddCompletionQueue();
    queues_.push_back(queue.get());
    threads_.push_back(std::make_unique<CompletionQueueThread>(std::move(queue)));
  }
}

void CallQueues::Start(const std::function<void(grpc::ServerCompletionQueue*)>& accept) {
  for (grpc::ServerCompletionQueue* queue : queues_) accept(queue);
  check_ = std::make_shared<PeriodicCheck>(&registry_, &activities_, options_.check_interval,
                                           queues_[0]);
  check_->Start();
  for (const auto& thread : threads_) thread->Start();
}

void CallQueues::Stop() {
  if (check_ != nullptr) check_->Stop();
  // A queue that is shut down while a call may still post on it would end the process; a call that
  // does not end after the server has cancelled it is a bug.
  SANGAM_CHECK(activities_.WaitForNone(kStopDeadline));
  for (const auto& thread : threads_) thread->Shutdown();
}

}  // namespace sangam
