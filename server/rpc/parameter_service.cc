#include "server/rpc/parameter_service.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/completion_queue_thread.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/periodic_check.h"
#include "common/rpc/server_stream.h"
#include "proto/parameter_service.grpc.pb.h"
#include "server/rpc/parameter_stream.h"
#include "server/rpc/read_weights_call.h"

namespace sangam {
namespace {

using RawService = v1::ParameterService::WithRawMethod_PushPull<
    v1::ParameterService::WithRawMethod_ReadWeights<v1::ParameterService::Service>>;

// Longer than any call takes to end once the server has cancelled it.
constexpr absl::Duration kStopDeadline = absl::Minutes(1);

// Accepts the PushPull calls of one queue, one after the other. Lives until the server is shut
// down.
class PushPullAcceptor final : public std::enable_shared_from_this<PushPullAcceptor> {
 public:
  PushPullAcceptor(const ParameterCallContext* context, RawService* service,
                   grpc::ServerCompletionQueue* queue)
      : context_(*context), service_(service), queue_(queue) {}

  // Holds an activity for each call that it waits for; an accepted call takes it over.
  void AcceptNext() {
    context_.activities->Begin();
    stream_ = ServerStream::Create();
    service_->RequestPushPull(stream_->context(), stream_->io(), queue_, queue_,
                              tag_.Arm(shared_from_this()));
  }

 private:
  void OnAccepted(bool ok) {
    const std::shared_ptr<ServerStream> stream = std::move(stream_);
    if (!ok) {  // the server is shut down
      context_.activities->End();
      return;
    }
    AcceptNext();
    const auto call = std::make_shared<ParameterStream>(&context_, stream);
    const absl::Status admitted = context_.registry->Add(call);
    stream->Begin(call);
    if (!admitted.ok()) call->End(admitted);
  }

  const ParameterCallContext& context_;
  RawService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  std::shared_ptr<ServerStream> stream_;
  OperationTag<PushPullAcceptor> tag_{&PushPullAcceptor::OnAccepted};
};

// The same for ReadWeights.
class ReadWeightsAcceptor final : public std::enable_shared_from_this<ReadWeightsAcceptor> {
 public:
  ReadWeightsAcceptor(const ParameterCallContext* context, RawService* service,
                      grpc::ServerCompletionQueue* queue)
      : context_(*context), service_(service), queue_(queue) {}

  void AcceptNext() {
    context_.activities->Begin();
    call_ = std::make_shared<ReadWeightsCall>(&context_);
    service_->RequestReadWeights(call_->context(), call_->request(), call_->io(), queue_, queue_,
                                 tag_.Arm(shared_from_this()));
  }

 private:
  void OnAccepted(bool ok) {
    const std::shared_ptr<ReadWeightsCall> call = std::move(call_);
    if (!ok) {
      context_.activities->End();
      return;
    }
    AcceptNext();
    call->Begin(context_.registry->Add(call));
  }

  const ParameterCallContext& context_;
  RawService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  std::shared_ptr<ReadWeightsCall> call_;
  OperationTag<ReadWeightsAcceptor> tag_{&ReadWeightsAcceptor::OnAccepted};
};

}  // namespace

class ParameterService::Impl {
 public:
  Impl(const Options& options, ShardFinder find_shard)
      : options_(options), registry_(options.max_calls) {
    SANGAM_CHECK(options.threads >= 1);
    context_.find_shard = std::move(find_shard);
    context_.registry = &registry_;
    context_.activities = &activities_;
    context_.max_message_bytes = static_cast<size_t>(MaxDataMessageBytes(options.page_elements));
    context_.max_waiting_frames = options.max_waiting_frames;
    context_.hello_deadline = options.hello_deadline;
    context_.stall_deadline = options.stall_deadline;
    context_.end_grace = options.end_grace;
  }

  void Register(grpc::ServerBuilder* builder) {
    ConfigureDataServer(builder);
    builder->RegisterService(&service_);
    for (int i = 0; i < options_.threads; ++i) {
      std::unique_ptr<grpc::ServerCompletionQueue> queue = builder->AddCompletionQueue();
      queues_.push_back(queue.get());
      threads_.push_back(std::make_unique<CompletionQueueThread>(std::move(queue)));
    }
  }

  void Start() {
    for (grpc::ServerCompletionQueue* queue : queues_) {
      std::make_shared<PushPullAcceptor>(&context_, &service_, queue)->AcceptNext();
      std::make_shared<ReadWeightsAcceptor>(&context_, &service_, queue)->AcceptNext();
    }
    check_ = std::make_shared<PeriodicCheck>(&registry_, &activities_, options_.check_interval,
                                             queues_[0]);
    check_->Start();
    for (const auto& thread : threads_) thread->Start();
  }

  void EndCalls() { registry_.EndAll(absl::UnavailableError("the server stops")); }

  void Stop() {
    if (check_ != nullptr) check_->Stop();
    // A queue that is shut down while a call may still post on it would end the process; a call
    // that does not end after the server has cancelled it is a bug.
    SANGAM_CHECK(activities_.WaitForNone(kStopDeadline));
    for (const auto& thread : threads_) thread->Shutdown();
  }

 private:
  const Options options_;
  CallRegistry registry_;
  ActivityCount activities_;
  ParameterCallContext context_;
  RawService service_;
  std::vector<grpc::ServerCompletionQueue*> queues_;
  std::vector<std::unique_ptr<CompletionQueueThread>> threads_;
  std::shared_ptr<PeriodicCheck> check_;
};

ParameterService::ParameterService(const Options& options, ShardFinder find_shard)
    : impl_(std::make_unique<Impl>(options, std::move(find_shard))) {}

ParameterService::~ParameterService() { Stop(); }

void ParameterService::Register(grpc::ServerBuilder* builder) { impl_->Register(builder); }

void ParameterService::Start() { impl_->Start(); }

void ParameterService::EndCalls() { impl_->EndCalls(); }

void ParameterService::Stop() { impl_->Stop(); }

}  // namespace sangam
