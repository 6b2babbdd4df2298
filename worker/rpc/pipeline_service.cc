#include "worker/rpc/pipeline_service.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/plan/page_map.h"
#include "common/rpc/call_queues.h"
#include "common/rpc/data_channel.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/stream_acceptor.h"
#include "proto/pipeline_service.grpc.pb.h"
#include "worker/rpc/flow_registry.h"
#include "worker/rpc/flow_stream.h"

namespace sangam {
namespace {

using RawService = v1::PipelineService::WithRawMethod_Flow<v1::PipelineService::Service>;

}  // namespace

class PipelineService::Impl {
 public:
  Impl(const Options& options, const FlowRegistry* jobs)
      : queues_({options.threads, options.max_calls, options.check_interval, options.counts}) {
    context_.jobs = jobs;
    context_.registry = queues_.registry();
    context_.activities = queues_.activities();
    context_.max_message_bytes = static_cast<size_t>(MaxDataMessageBytes(kPageElements));
    context_.hello_deadline = options.hello_deadline;
    context_.end_grace = options.end_grace;
    context_.counts = options.counts;
  }

  void Register(grpc::ServerBuilder* builder) { queues_.Register(builder, &service_); }

  void Start() {
    StreamAcceptor<FlowStream>::Options accept;
    accept.request = [this](ServerStream* stream, grpc::ServerCompletionQueue* queue, void* tag) {
      service_.RequestFlow(stream->context(), stream->io(), queue, queue, tag);
    };
    accept.make_call = [this](std::shared_ptr<ServerStream> stream) {
      return std::make_shared<FlowStream>(&context_, std::move(stream));
    };
    accept.registry = queues_.registry();
    accept.activities = queues_.activities();
    queues_.Start([&accept](grpc::ServerCompletionQueue* queue) {
      StreamAcceptor<FlowStream>::Start(accept, queue);
    });
  }

  void EndCalls() { queues_.EndCalls(absl::UnavailableError("the worker stops")); }
  void Stop() { queues_.Stop(); }

 private:
  FlowCallContext context_;
  RawService service_;
  CallQueues queues_;  // last: its threads use the above
};

PipelineService::PipelineService(const Options& options, const FlowRegistry* jobs)
    : impl_(std::make_unique<Impl>(options, jobs)) {}

PipelineService::~PipelineService() { Stop(); }

void PipelineService::Register(grpc::ServerBuilder* builder) { impl_->Register(builder); }

void PipelineService::Start() { impl_->Start(); }

void PipelineService::EndCalls() { impl_->EndCalls(); }

void PipelineService::Stop() { impl_->Stop(); }

}  // namespace sangam
