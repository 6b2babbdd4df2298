#include "worker/runtime/prepared_job.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "common/plan/span.h"
#include "proto/plan.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/core/step_program.h"
#include "worker/data/prefetcher.h"
#include "worker/layers/block.h"
#include "worker/layers/loss.h"

namespace sangam {
namespace {

template <typename Sizes>
uint64_t Product(const Sizes& sizes) {
  uint64_t product = 1;
  for (const uint64_t size : sizes) product *= size;
  return product;
}

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / (1024 * 1024); }

// What the job will hold, as far as it can be told before it is allocated, in bytes.
struct MemoryNeed {
  uint64_t data = 0;
  uint64_t weights = 0;
  uint64_t gradients = 0;
  uint64_t activations = 0;
  uint64_t batches = 0;
  uint64_t total() const { return data + weights + gradients + activations + batches; }
};

MemoryNeed NeedOf(const PreparedJob& job, uint32_t lanes) {
  MemoryNeed need;
  need.data = job.data.memory_bytes();
  for (const v1::SegmentLayout& segment : job.plan.layout().segment()) {
    need.weights += segment.element_count() * sizeof(float);
  }
  need.gradients = GradientOutbox::MaxMemoryBytes(job.plan, job.shares, lanes);
  uint64_t sample = 0;
  for (const v1::BlockLayout& block : job.plan.layout().block()) {
    // Kept for backward, and the output and both gradients of the pass under way.
    sample += block.activation_bytes() +
              (2 * Product(block.output_shape()) + Product(block.input_shape())) * sizeof(float);
  }
  need.activations = sample * job.cut.MaxMicroBatchSize() * lanes;
  Prefetcher::Options batches = job.PrefetchOptions();
  batches.lanes = lanes;
  need.batches = Prefetcher::MemoryBytes(batches);
  return need;
}

absl::Status CheckMemory(const MemoryNeed& need, uint64_t limit) {
  if (limit == 0 || need.total() <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the job needs about %.1f MiB of memory on this worker (data %.1f, weights %.1f, gradients "
      "%.1f, activations %.1f, prepared batches %.1f); memory_limit is %.1f MiB",
      MiB(need.total()), MiB(need.data), MiB(need.weights), MiB(need.gradients),
      MiB(need.activations), MiB(need.batches), MiB(limit)));
}

absl::Status BuildBlocks(PreparedJob* job) {
  const v1::ModelSpec& model = job->spec.model();
  const v1::ModelLayout& layout = job->plan.layout();
  if (model.block_size() != layout.block_size()) {
    return absl::InvalidArgumentError(absl::StrCat("plan.layout: found ", layout.block_size(),
                                                   " blocks, expected ", model.block_size(),
                                                   " as in the model"));
  }
  uint32_t first_layer = 0;
  for (int b = 0; b < model.block_size(); ++b) {
    const int segment = layout.block(b).segment();
    if (segment >= layout.segment_size()) {
      return absl::InvalidArgumentError(absl::StrCat("plan.layout.block[", b, "].segment: found ",
                                                     segment, ", expected less than ",
                                                     layout.segment_size()));
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Block> block,
                     Block::Create(model.block(b), layout.block(b),
                                   segment < 0 ? nullptr : &layout.segment(segment), first_layer),
                     "model.block[%d]", b);
    job->blocks.push_back(std::move(block));
    first_layer += static_cast<uint32_t>(model.block(b).layer_size());
  }
  ASSIGN_OR_RETURN(job->loss, Loss::Create(job->spec.loss()));
  return absl::OkStatus();
}

absl::StatusOr<LaneMemory> BuildLane(const PreparedJob& job, const std::string& backend) {
  LaneMemory lane;
  ASSIGN_OR_RETURN(lane.backend, CreateBackend(backend));
  if (!lane.backend->uses_host_memory()) {
    return absl::UnimplementedError(absl::StrCat(
        "backend ", backend, ": has memory of its own, expected one that works in the host's"));
  }
  const uint64_t rows = job.cut.MaxMicroBatchSize();
  for (const std::unique_ptr<Block>& block : job.blocks) {
    ASSIGN_OR_RETURN(std::unique_ptr<BlockState> state, block->NewState(lane.backend.get(), rows));
    lane.states.push_back(std::move(state));
  }
  const v1::BlockLayout& last = job.plan.layout().block(job.plan.layout().block_size() - 1);
  ASSIGN_OR_RETURN(
      lane.output_gradient,
      lane.backend->Allocate(static_cast<int64_t>(rows * Product(last.output_shape()))));
  return lane;
}

absl::Status CheckCut(const v1::Assignment& assignment) {
  const v1::Plan& plan = assignment.plan();
  const uint64_t batch = assignment.spec().batch().size();
  if (batch == 0 || plan.micro_batches() == 0 || plan.micro_batches() > batch) {
    return absl::InvalidArgumentError(absl::StrCat("plan.micro_batches: found ",
                                                   plan.micro_batches(),
                                                   ", expected between 1 and batch.size, ", batch));
  }
  return absl::OkStatus();
}

}  // namespace

v1::ReadyReport PreparedJob::Facts() const {
  v1::ReadyReport facts;
  if (data.train == nullptr) return facts;
  facts.set_train_samples(data.train->num_samples());
  facts.set_test_samples(data.test_samples());
  facts.set_classes(data.classes());
  return facts;
}

Prefetcher::Options PreparedJob::PrefetchOptions() const {
  Prefetcher::Options options;
  options.lanes = lanes.size();
  options.max_rows = cut.MaxMicroBatchSize();
  options.row_elements = data.train->sample_elements();
  return options;
}

absl::StatusOr<std::unique_ptr<PreparedJob>> PrepareJob(const v1::Assignment& assignment,
                                                        uint32_t worker,
                                                        const PrepareOptions& options) {
  ASSIGN_OR_RETURN(const uint32_t lanes, NumLanes(assignment.plan(), worker, options.threads));
  auto job = std::make_unique<PreparedJob>();
  job->spec = assignment.spec();
  job->plan = assignment.plan();
  job->worker = worker;
  const v1::Span& shares = job->plan.worker(static_cast<int>(worker)).shares();
  job->shares = {shares.begin(), shares.end()};
  if (lanes == 0) return job;
  RETURN_IF_ERROR(CheckCut(assignment));
  // Refuses plans that this worker cannot follow before anything is opened for them.
  ProgramInputs inputs;
  inputs.worker = worker;
  inputs.lanes = lanes;
  RETURN_IF_ERROR(BuildStepProgram(job->plan, inputs, RoundKind::kTrain).status());

  JobDataOptions data_options;
  data_options.root = options.data_root;
  data_options.cancelled = options.cancelled;
  if (options.memory_limit > 0) data_options.max_memory_bytes = options.memory_limit;
  ASSIGN_OR_RETURN(job->data, OpenJobData(job->spec, job->plan.layout(), data_options));
  job->cut.batch_size = job->spec.batch().size();
  job->cut.micro_batches = job->plan.micro_batches();
  job->cut.shares = job->plan.shares();
  job->cut.training_samples = job->data.train->num_samples();
  if (!job->spec.evaluation().off()) {
    job->evaluation_chunks =
        NumEvaluationChunks(job->data.test_samples(), job->cut.MaxMicroBatchSize());
  }
  RETURN_IF_ERROR(CheckMemory(NeedOf(*job, lanes), options.memory_limit));
  RETURN_IF_ERROR(BuildBlocks(job.get()));
  ASSIGN_OR_RETURN(job->store, SegmentStore::Create(job->plan, /*first_step=*/0));
  ASSIGN_OR_RETURN(job->outbox, GradientOutbox::Create(job->plan, job->shares, lanes));
  for (uint32_t l = 0; l < lanes; ++l) {
    ASSIGN_OR_RETURN(LaneMemory lane, BuildLane(*job, options.backend), "memory of lane %d", l);
    job->lanes.push_back(std::move(lane));
  }
  return job;
}

}  // namespace sangam
