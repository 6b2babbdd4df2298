#include "worker/rpc/grpc_parameter_link.h"

#include <grpcpp/completion_queue.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/rpc/data_channel.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "worker/rpc/gradient_ledger.h"
#include "worker/rpc/server_connection.h"

namespace sangam {
namespace {

// Longer than any call takes to end once it was cancelled.
constexpr absl::Duration kCancelDeadline = absl::Minutes(1);

// A worker computes at most one step ahead of what is answered; twice that is a fault.
constexpr size_t kUnansweredSteps = 2;

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterLink>> GrpcParameterLink::Create(const v1::Plan& plan,
                                                                         uint32_t worker,
                                                                         const Options& options) {
  ASSIGN_OR_RETURN(PageMap map, PageMap::Create(plan));
  if (worker >= static_cast<uint32_t>(plan.worker_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker: found ", worker, ", expected less than ", plan.worker_size()));
  }
  if (plan.page_elements() > kMaxPageElements) {
    return absl::InvalidArgumentError(absl::StrCat("plan.page_elements: found ",
                                                   plan.page_elements(), ", expected at most ",
                                                   kMaxPageElements));
  }
  const v1::Span& shares = plan.worker(static_cast<int>(worker)).shares();
  if (shares.begin() > shares.end() || shares.end() > plan.shares()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan.worker[", worker, "].shares: found [", shares.begin(), ",", shares.end(),
                     "), expected a part of [0,", plan.shares(), ")"));
  }
  return std::unique_ptr<ParameterLink>(
      new GrpcParameterLink(plan, worker, std::move(map), options));
}

GrpcParameterLink::GrpcParameterLink(const v1::Plan& plan, uint32_t worker, PageMap map,
                                     const Options& options)
    : options_(options),
      map_(std::move(map)),
      servers_(plan.server().begin(), plan.server().end()),
      thread_(std::make_unique<grpc::CompletionQueue>()) {
  const v1::WorkerPlan& self = plan.worker(static_cast<int>(worker));
  sender_.set_job(plan.job());
  sender_.set_generation(plan.generation());
  sender_.set_source(worker);
  hello_.set_protocol_version(kProtocolVersion);
  hello_.set_schema_hash(plan.schema_hash());
  hello_.set_worker(self.name());
  hello_.set_incarnation(self.incarnation());
  spans_ = MaximalSpans({self.shares().begin(), self.shares().end()}, plan.shares()).size();
  for (const v1::SegmentLayout& segment : plan.layout().segment()) {
    // A layout that lists no uses has the one of the segment's own block.
    uses_.push_back(std::max(1u, static_cast<uint32_t>(segment.use_size())));
  }
}

GrpcParameterLink::~GrpcParameterLink() {
  // What it ends with is of no interest to the one who did not call it.
  const absl::Status ignored = Close(absl::ZeroDuration());
}

ServerConnection::Options GrpcParameterLink::ConnectionOptions(uint32_t server) const {
  ServerConnection::Options options;
  options.server = servers_[server].name();
  options.address = servers_[server].address();
  options.page_elements = map_.page_elements();
  options.sender = sender_;
  options.hello = hello_;
  options.connect_deadline = options_.connect_deadline;
  options.backoff = options_.backoff;
  return options;
}

absl::Status GrpcParameterLink::Start(const std::vector<uint32_t>& segments, uint64_t first_step,
                                      WeightsReceiver* receiver) {
  std::vector<bool> subscribed(map_.num_segments());
  for (const uint32_t segment : segments) {
    if (segment >= map_.num_segments()) {
      return absl::InvalidArgumentError(
          absl::StrCat("segment: found ", segment, ", expected less than ", map_.num_segments()));
    }
    subscribed[segment] = true;
  }
  std::vector<std::vector<PageRange>> pages(servers_.size());
  std::vector<size_t> gradients(servers_.size());  // of one step
  for (uint32_t segment = 0; segment < map_.num_segments(); ++segment) {
    if (!subscribed[segment]) continue;
    for (const PageRange& page : map_.pages(segment)) {
      pages[page.server].push_back(page);
      gradients[page.server] += spans_ * uses_[segment];
    }
  }
  MutexLock lock(&mutex_);
  if (state_ != State::kNew) {
    return absl::FailedPreconditionError("the link was started or closed before");
  }
  ConnectionOwner* const owner = this;
  receiver_ = receiver;
  subscribed_ = std::move(subscribed);
  connections_.resize(servers_.size());
  for (uint32_t server = 0; server < servers_.size(); ++server) {
    if (pages[server].empty()) continue;
    connections_[server] = std::make_shared<ServerConnection>(
        ConnectionOptions(server),
        GradientLedger(pages[server], first_step, kUnansweredSteps * gradients[server]),
        thread_.queue(), &activities_, owner);
  }
  state_ = State::kOpen;
  for (const auto& connection : connections_) {
    if (connection != nullptr) connection->Open();
  }
  thread_.Start();
  return absl::OkStatus();
}

absl::Status GrpcParameterLink::CheckPush(uint32_t segment, uint32_t use,
                                          const FloatBuffer& sum) const {
  MutexLock lock(&mutex_);
  if (state_ != State::kOpen) {
    return absl::FailedPreconditionError(
        state_ == State::kFailed ? absl::StrCat("the link has failed: ", failure_.ToString())
                                 : "the link is not open");
  }
  if (segment >= subscribed_.size() || !subscribed_[segment]) {
    return absl::InvalidArgumentError(
        absl::StrCat("segment: found ", segment, ", expected one that the link was started for"));
  }
  if (use >= uses_[segment]) {
    return absl::InvalidArgumentError(absl::StrCat("use of segment ", segment, ": found ", use,
                                                   ", expected less than ", uses_[segment]));
  }
  const PageRange& last = map_.pages(segment).back();
  const uint64_t expected = last.first_element + last.element_count;
  if (sum.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("gradient of segment ", segment, ": found ",
                                                   sum.size(), " elements, expected ", expected));
  }
  return absl::OkStatus();
}

absl::Status GrpcParameterLink::PushPages(uint64_t step, uint32_t segment, uint32_t use,
                                          ShareSpan span, uint64_t samples, const FloatBuffer& sum,
                                          PageSpan pages) {
  RETURN_IF_ERROR(CheckPush(segment, use, sum));
  std::vector<bool> touched(connections_.size());
  const std::vector<PageRange>& all = map_.pages(segment);
  if (pages == kAllPages) pages.end = static_cast<uint32_t>(all.size());
  if (pages.empty() || pages.end > all.size()) {
    return absl::InvalidArgumentError(absl::StrCat("pages of segment ", segment, ": found [",
                                                   pages.begin, ",", pages.end,
                                                   "), expected some of ", all.size()));
  }
  for (size_t p = pages.begin; p < pages.end; ++p) {
    const PageRange& page = all[p];
    RETURN_IF_ERROR(connections_[page.server]->Push({page, step, use, span, samples, sum}));
    touched[page.server] = true;
  }
  for (size_t server = 0; server < touched.size(); ++server) {
    if (touched[server]) connections_[server]->Wake();
  }
  return absl::OkStatus();
}

absl::Status GrpcParameterLink::OnWeights(const v1::FrameHeader& header,
                                          const SlicePayload& elements) {
  {
    MutexLock lock(&mutex_);
    if (state_ == State::kFailed) return failure_;
  }
  return receiver_->OnWeights(header, elements);
}

void GrpcParameterLink::OnConnectionEnded(const absl::Status& status) {
  if (status.ok()) return;
  bool failed;
  {
    MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = status;
    failed = state_ == State::kOpen;
    if (failed) state_ = State::kFailed;
  }
  if (!failed) return;
  for (const auto& connection : connections_) {
    if (connection != nullptr) connection->Abandon(status);
  }
  receiver_->OnLinkFailed(status);
}

absl::Status GrpcParameterLink::Close(absl::Duration deadline) {
  MutexLock close_lock(&close_mutex_);
  if (!closed_with_.has_value()) closed_with_ = CloseConnections(deadline);
  return *closed_with_;
}

absl::Status GrpcParameterLink::CloseConnections(absl::Duration deadline) {
  {
    MutexLock lock(&mutex_);
    // A link that has failed keeps saying why.
    if (state_ != State::kFailed) state_ = State::kClosed;
  }
  for (const auto& connection : connections_) {
    if (connection != nullptr) connection->Close();
  }
  if (!activities_.WaitForNone(deadline)) {
    const absl::Status late = absl::DeadlineExceededError(
        absl::StrCat("servers did not end their streams within ", absl::FormatDuration(deadline)));
    for (const auto& connection : connections_) {
      if (connection != nullptr) connection->Abandon(late);
    }
    // The queue may not be shut down before; a cancelled call that does not end is a bug.
    SANGAM_CHECK(activities_.WaitForNone(kCancelDeadline));
  }
  thread_.Shutdown();
  MutexLock lock(&mutex_);
  return failure_;
}

}  // namespace sangam
