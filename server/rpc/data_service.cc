#include "server/rpc/data_service.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/base/check.h"
#include "common/rpc/call_queues.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/stream_acceptor.h"
#include "proto/data_service.grpc.pb.h"
#include "server/rpc/feed_stream.h"

namespace sangam {
namespace {

using RawService = v1::DataService::WithRawMethod_Feed<v1::DataService::Service>;

}  // namespace

class DataService::Impl {
 public:
  Impl(const Options& options, ServedJobFinder find_job)
      : queues_({options.threads, options.max_calls, options.check_interval, options.counts}) {
    SANGAM_CHECK(options.piece_elements >= 1);
    context_.find_job = std::move(find_job);
    context_.registry = queues_.registry();
    context_.activities = queues_.activities();
    context_.max_requests = options.max_requests;
    context_.piece_elements = options.piece_elements;
    context_.hello_deadline = options.hello_deadline;
    context_.stall_deadline = options.stall_deadline;
    context_.end_grace = options.end_grace;
    context_.counts = options.counts;
  }

  void Register(grpc::ServerBuilder* builder) { queues_.Register(builder, &service_); }

  void Start() {
    StreamAcceptor<FeedStream>::Options accept;
    accept.request = [this](ServerStream* stream, grpc::ServerCompletionQueue* queue, void* tag) {
      service_.RequestFeed(stream->context(), stream->io(), queue, queue, tag);
    };
    accept.make_call = [this](std::shared_ptr<ServerStream> stream) {
      return std::make_shared<FeedStream>(&context_, std::move(stream));
    };
    accept.registry = queues_.registry();
    accept.activities = queues_.activities();
    queues_.Start([&accept](grpc::ServerCompletionQueue* queue) {
      StreamAcceptor<FeedStream>::Start(accept, queue);
    });
  }

  void EndCalls() { queues_.EndCalls(absl::UnavailableError("the coordinator stops")); }
  void Stop() { queues_.Stop(); }

 private:
  FeedContext context_;
  RawService service_;
  CallQueues queues_;  // last: its threads use the above
};

DataService::DataService(const Options& options, ServedJobFinder find_job)
    : impl_(std::make_unique<Impl>(options, std::move(find_job))) {}

DataService::~DataService() { Stop(); }

void DataService::Register(grpc::ServerBuilder* builder) { impl_->Register(builder); }

void DataService::Start() { impl_->Start(); }

void DataService::EndCalls() { impl_->EndCalls(); }

void DataService::Stop() { impl_->Stop(); }

}  // namespace sangam
