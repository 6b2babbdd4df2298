#include "server/rpc/parameter_service.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_places.h"
#include "common/rpc/call_queues.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/stream_acceptor.h"
#include "proto/parameter_service.grpc.pb.h"
#include "server/rpc/parameter_stream.h"
#include "server/rpc/read_weights_call.h"
#include "server/rpc/vote_stream.h"

namespace sangam {
namespace {

using RawService = v1::ParameterService::WithRawMethod_PushPull<
    v1::ParameterService::WithRawMethod_ReadWeights<v1::ParameterService::WithRawMethod_ReadState<
        v1::ParameterService::WithRawMethod_Vote<v1::ParameterService::Service>>>>;

// Accepts the ReadWeights or ReadState calls of one queue, one after the other. Lives until the
// server is shut down.
class ReadWeightsAcceptor final : public std::enable_shared_from_this<ReadWeightsAcceptor> {
 public:
  ReadWeightsAcceptor(const ParameterCallContext* context, ReadWeightsCall::What what,
                      RawService* service, grpc::ServerCompletionQueue* queue)
      : context_(*context), what_(what), service_(service), queue_(queue) {}

  // Holds an activity for each call that it waits for; an accepted call takes it over.
  void AcceptNext() {
    context_.activities->Begin();
    call_ = std::make_shared<ReadWeightsCall>(&context_, what_);
    const auto request = [this](auto method) {
      (service_->*method)(call_->context(), call_->request(), call_->io(), queue_, queue_,
                          tag_.Arm(shared_from_this()));
    };
    if (what_ == ReadWeightsCall::What::kState) {
      request(&RawService::RequestReadState);
    } else {
      request(&RawService::RequestReadWeights);
    }
  }

 private:
  void OnAccepted(bool ok) {
    const std::shared_ptr<ReadWeightsCall> call = std::move(call_);
    if (!ok) {  // the server is shut down
      context_.activities->End();
      return;
    }
    AcceptNext();
    call->Begin(context_.registry->Add(call));
  }

  const ParameterCallContext& context_;
  const ReadWeightsCall::What what_;
  RawService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  std::shared_ptr<ReadWeightsCall> call_;
  OperationTag<ReadWeightsAcceptor> tag_{&ReadWeightsAcceptor::OnAccepted};
};

}  // namespace

class ParameterService::Impl {
 public:
  Impl(const Options& options, ShardFinder find_shard, CounterFinder find_counter)
      : reads_(options.max_reads, options.max_reads_of_one),
        queues_({options.threads, options.max_calls, options.check_interval, options.counts}) {
    context_.reads = &reads_;
    context_.find_shard = std::move(find_shard);
    context_.registry = queues_.registry();
    context_.activities = queues_.activities();
    context_.max_message_bytes = static_cast<size_t>(MaxDataMessageBytes(options.page_elements));
    context_.max_waiting_frames = options.max_waiting_frames;
    context_.hello_deadline = options.hello_deadline;
    context_.stall_deadline = options.stall_deadline;
    context_.end_grace = options.end_grace;
    context_.counts = options.counts;
    votes_.find_counter = std::move(find_counter);
    votes_.registry = queues_.registry();
    votes_.activities = queues_.activities();
    votes_.hello_deadline = options.hello_deadline;
    votes_.stall_deadline = options.stall_deadline;
    votes_.end_grace = options.end_grace;
    votes_.counts = options.counts;
  }

  void Register(grpc::ServerBuilder* builder) { queues_.Register(builder, &service_); }

  void Start() {
    StreamAcceptor<ParameterStream>::Options accept;
    accept.request = [this](ServerStream* stream, grpc::ServerCompletionQueue* queue, void* tag) {
      service_.RequestPushPull(stream->context(), stream->io(), queue, queue, tag);
    };
    accept.make_call = [this](std::shared_ptr<ServerStream> stream) {
      return std::make_shared<ParameterStream>(&context_, std::move(stream));
    };
    accept.registry = queues_.registry();
    accept.activities = queues_.activities();
    StreamAcceptor<VoteStream>::Options accept_votes;
    accept_votes.request = [this](ServerStream* stream, grpc::ServerCompletionQueue* queue,
                                  void* tag) {
      service_.RequestVote(stream->context(), stream->io(), queue, queue, tag);
    };
    accept_votes.make_call = [this](std::shared_ptr<ServerStream> stream) {
      return std::make_shared<VoteStream>(&votes_, std::move(stream));
    };
    accept_votes.registry = queues_.registry();
    accept_votes.activities = queues_.activities();
    queues_.Start([&](grpc::ServerCompletionQueue* queue) {
      StreamAcceptor<ParameterStream>::Start(accept, queue);
      StreamAcceptor<VoteStream>::Start(accept_votes, queue);
      for (const auto what : {ReadWeightsCall::What::kWeights, ReadWeightsCall::What::kState}) {
        std::make_shared<ReadWeightsAcceptor>(&context_, what, &service_, queue)->AcceptNext();
      }
    });
  }

  void EndCalls() { queues_.EndCalls(absl::UnavailableError("the server stops")); }
  void Stop() { queues_.Stop(); }

 private:
  CallPlaces reads_;
  ParameterCallContext context_;
  VoteCallContext votes_;
  RawService service_;
  CallQueues queues_;  // last: its threads use the above
};

ParameterService::ParameterService(const Options& options, ShardFinder find_shard,
                                   CounterFinder find_counter)
    : impl_(std::make_unique<Impl>(options, std::move(find_shard), std::move(find_counter))) {}

ParameterService::~ParameterService() { Stop(); }

void ParameterService::Register(grpc::ServerBuilder* builder) { impl_->Register(builder); }

void ParameterService::Start() { impl_->Start(); }

void ParameterService::EndCalls() { impl_->EndCalls(); }

void ParameterService::Stop() { impl_->Stop(); }

}  // namespace sangam
