#include "worker/rpc/grpc_pipeline_link.h"

#include <grpcpp/completion_queue.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/rpc/flow_connection.h"
#include "worker/rpc/flow_registry.h"
#include "worker/runtime/flow_exchange.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam {
namespace {

// From the moment when both sides have nothing more to say until the streams are over.
constexpr absl::Duration kGoodbye = absl::Seconds(5);

// Longer than any call takes to end once it was cancelled.
constexpr absl::Duration kCancelDeadline = absl::Minutes(1);

// How late it may be noticed that a worker is out of reach.
constexpr absl::Duration kLongestLook = absl::Milliseconds(500);

}  // namespace

absl::StatusOr<std::unique_ptr<PipelineLink>> GrpcPipelineLink::Create(
    const PipelineLinkOptions& link_options, FlowRegistry* registry, const Options& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<FlowExchange> exchange, FlowExchange::Create(link_options));
  RETURN_IF_ERROR(registry->Add(exchange));
  return std::unique_ptr<PipelineLink>(
      new GrpcPipelineLink(std::move(exchange), registry, options));
}

GrpcPipelineLink::GrpcPipelineLink(std::shared_ptr<FlowExchange> exchange, FlowRegistry* registry,
                                   const Options& options)
    : exchange_(std::move(exchange)),
      registry_(registry),
      options_(options),
      thread_(std::make_unique<grpc::CompletionQueue>()) {}

GrpcPipelineLink::~GrpcPipelineLink() {
  // What it ends with is of no interest to the one who did not call it.
  const absl::Status ignored = Close(absl::ZeroDuration());
  // Not before: until then streams that come are told why the exchange has ended.
  registry_->Remove(exchange_.get());
}

absl::Status GrpcPipelineLink::Start(std::function<void(const absl::Status&)> on_failure) {
  MutexLock lock(&mutex_);
  if (started_ || closed_with_.has_value()) {
    return absl::FailedPreconditionError("the link was started or closed before");
  }
  started_ = true;
  on_failure_ = std::move(on_failure);
  exchange_->StartClock();
  const FlowConnection::Options options = {options_.connect_deadline, options_.backoff};
  for (size_t side = 0; side < exchange_->sides().size(); ++side) {
    if (!exchange_->sides()[side].opens) continue;
    connections_.push_back(
        std::make_shared<FlowConnection>(options, exchange_, side, thread_.queue(), &activities_));
  }
  for (const auto& connection : connections_) connection->Open();
  thread_.Start();
  watch_ = std::thread([this] { Watch(); });
  return absl::OkStatus();
}

void GrpcPipelineLink::Watch() {
  const absl::Duration look = std::min(kLongestLook, options_.connect_deadline / 4);
  while (!exchange_->AwaitEnd(std::max(look, absl::Milliseconds(1)))) {
    const absl::Status lost = exchange_->LostPeer(options_.connect_deadline);
    if (!lost.ok()) exchange_->Fail(lost);
  }
  const absl::Status failure = exchange_->failure();
  if (!failure.ok() && on_failure_ != nullptr) on_failure_(failure);
}

absl::StatusOr<FloatBuffer> GrpcPipelineLink::Reserve(uint32_t lane, uint32_t boundary,
                                                      FlowDirection direction,
                                                      absl::Duration stall_limit) {
  return exchange_->Reserve(lane, boundary, direction, stall_limit);
}

absl::Status GrpcPipelineLink::Send(uint32_t lane, const FlowTag& tag, FlowShape shape,
                                    FloatBuffer elements) {
  return exchange_->Send(lane, tag, shape, std::move(elements));
}

absl::StatusOr<FloatBuffer> GrpcPipelineLink::Receive(uint32_t lane, const FlowTag& tag,
                                                      FlowShape shape, absl::Duration stall_limit) {
  return exchange_->Receive(lane, tag, shape, stall_limit);
}

void GrpcPipelineLink::Stop() { exchange_->Stop(); }

void GrpcPipelineLink::Fail(const absl::Status& reason) { exchange_->Fail(reason); }

absl::Status GrpcPipelineLink::Close(absl::Duration deadline) {
  MutexLock lock(&mutex_);
  if (!closed_with_.has_value()) closed_with_ = CloseStreams(deadline);
  return *closed_with_;
}

absl::Status GrpcPipelineLink::CloseStreams(absl::Duration deadline) {
  const auto now = [] { return Clock::Real().Steady(); };
  const absl::Duration until = now() + deadline;
  // The last tensors, and the word that they were taken, are on their way when the lanes are done.
  bool in_time = !started_ || exchange_->AwaitTaken(until);
  for (const auto& connection : connections_) connection->Close();
  in_time = (!started_ || exchange_->AwaitStreamsOver(until)) && in_time;
  absl::Status late = absl::DeadlineExceededError(absl::StrCat(
      "other workers did not end their streams within ", absl::FormatDuration(deadline)));
  // When the exchange ends meanwhile it ends the streams.
  const absl::Duration goodbye = std::min(until - now(), kGoodbye);
  if (!activities_.WaitForNone(std::max(goodbye, absl::ZeroDuration()))) {
    in_time = false;
    for (const auto& connection : connections_) connection->End(late);
    // The queue may not be shut down before; a cancelled call that does not end is a bug.
    SANGAM_CHECK(activities_.WaitForNone(kCancelDeadline));
  }
  absl::Status failure = exchange_->failure();
  const bool stopped = exchange_->AwaitEnd(absl::ZeroDuration());
  exchange_->Close();
  if (watch_.joinable()) watch_.join();
  thread_.Shutdown();
  if (stopped) return failure;
  if (!in_time) return late;
  for (const auto& connection : connections_) RETURN_IF_ERROR(connection->closed_with());
  return absl::OkStatus();
}

}  // namespace sangam
