#include "worker/rpc/served_batches.h"

#include <grpcpp/completion_queue.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/data/batch_id.h"
#include "common/plan/pipeline_layout.h"
#include "proto/plan.pb.h"
#include "worker/data/batch_buffers.h"
#include "worker/data/batch_source.h"
#include "worker/rpc/batch_assembly.h"
#include "worker/rpc/feed_connection.h"

namespace sangam {
namespace {

// How long the coordinator may take to end the stream when all is done.
constexpr absl::Duration kCloseDeadline = absl::Seconds(1);
// Longer than any call takes to end once it was cancelled.
constexpr absl::Duration kCancelDeadline = absl::Minutes(1);

absl::Status CheckWanted(const char* field, uint64_t found, bool wanted, const char* block) {
  if ((found > 0) == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": found ", found, " for a worker ",
                                                 wanted ? "with" : "without", " the ", block,
                                                 " block, expected ", wanted ? "at least 1" : "0"));
}

absl::Status CheckFits(const v1::Plan& plan, uint32_t worker, const BatchOptions& batches) {
  RETURN_IF_ERROR(CheckStages(plan));
  if (worker >= static_cast<uint32_t>(plan.worker_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker: found ", worker, ", expected less than ", plan.worker_size()));
  }
  RETURN_IF_ERROR(
      CheckWanted("input_elements", batches.input_elements, HasFirstBlock(plan, worker), "first"));
  RETURN_IF_ERROR(CheckWanted("labels_per_sample", batches.labels_per_sample,
                              HasLastBlock(plan, worker), "last"));
  if (batches.input_elements == 0 && batches.labels_per_sample == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker ", worker, " has neither the first nor the last block, so it needs no samples"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BatchSource>> ServedBatches::Create(const Options& options,
                                                                   const v1::Plan& plan,
                                                                   uint32_t worker,
                                                                   const BatchOptions& batches,
                                                                   BatchSequence sequence) {
  RETURN_IF_ERROR(CheckFits(plan, worker, batches));
  ASSIGN_OR_RETURN(std::unique_ptr<BatchBuffers> buffers, BatchBuffers::Allocate(batches));
  std::unique_ptr<ServedBatches> source(new ServedBatches(std::move(buffers), std::move(sequence)));
  const v1::WorkerPlan& self = plan.worker(static_cast<int>(worker));
  FeedConnection::Options connection;
  connection.address = options.coordinator;
  connection.sender.set_job(plan.job());
  connection.sender.set_generation(plan.generation());
  connection.sender.set_source(worker);
  connection.hello.set_protocol_version(kProtocolVersion);
  connection.hello.set_schema_hash(plan.schema_hash());
  connection.hello.set_worker(self.name());
  connection.hello.set_incarnation(self.incarnation());
  connection.max_unanswered = options.max_unanswered;
  connection.connect_deadline = options.connect_deadline;
  connection.backoff = options.backoff;
  source->Start(std::move(connection));
  return std::unique_ptr<BatchSource>(std::move(source));
}

ServedBatches::ServedBatches(std::unique_ptr<BatchBuffers> buffers, BatchSequence sequence)
    : buffers_(std::move(buffers)),
      sequence_(std::move(sequence)),
      receiver_(std::make_unique<grpc::CompletionQueue>()) {}

void ServedBatches::Start(FeedConnection::Options options) {
  FeedOwner* const owner = this;
  connection_ =
      std::make_shared<FeedConnection>(std::move(options), receiver_.queue(), &activities_, owner);
  connection_->Open();
  receiver_.Start();
  asker_ = std::thread([this] { AskAhead(); });
}

BatchFeedFactory ServedBatches::Factory(const Options& options) {
  return [options](const v1::Plan& plan, uint32_t worker, const BatchOptions& batches,
                   BatchSequence sequence) {
    return Create(options, plan, worker, batches, std::move(sequence));
  };
}

ServedBatches::~ServedBatches() {
  // In order when all is answered, so that the coordinator has nothing to wonder about.
  const bool idle = !buffers_->stopped() && !buffers_->filling();
  buffers_->Stop();
  if (idle) connection_->Close();
  if (!idle || !activities_.WaitForNone(kCloseDeadline)) Stop();
  asker_.join();
  // The queue may not be shut down before; a cancelled call that does not end is a bug.
  SANGAM_CHECK(activities_.WaitForNone(kCancelDeadline));
  receiver_.Shutdown();
}

void ServedBatches::AskAhead() {
  while (const std::optional<BatchBuffers::Target> target = buffers_->WaitForFree()) {
    const std::optional<BatchId> id = sequence_(target->lane);
    if (!id.has_value()) {
      buffers_->End(*target, absl::OutOfRangeError(absl::StrCat("lane ", target->lane,
                                                                " has no more micro-batches")));
    } else if (!connection_->Ask(BatchAssembly(buffers_->options(), *id, *target))) {
      return;  // the connection is over, and OnFeedEnded tells all lanes why
    }
  }
}

void ServedBatches::OnAnswered(const BatchAssembly& answer) {
  buffers_->Filled(answer.target(), answer.id(), answer.rows());
}

void ServedBatches::OnFeedEnded(const absl::Status& status) {
  buffers_->Fail(status.ok() ? absl::CancelledError("the feed was closed") : status);
}

absl::StatusOr<Batch> ServedBatches::Take(size_t lane, absl::Duration timeout) {
  return buffers_->Take(lane, timeout);
}

void ServedBatches::Stop() {
  buffers_->Stop();
  connection_->Abandon(absl::CancelledError("the source of batches was stopped"));
}

}  // namespace sangam
