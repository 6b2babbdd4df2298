#include "worker/runtime/prepared_job.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/data/job_data.h"
#include "common/plan/batch_cut.h"
#include "common/plan/pipeline_layout.h"
#include "common/plan/schedule.h"
#include "common/plan/worker_memory.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/views.h"
#include "worker/core/instruction.h"
#include "worker/core/lane_program.h"
#include "worker/core/step_program.h"
#include "worker/data/batch_source.h"
#include "worker/layers/block.h"
#include "worker/layers/loss.h"
#include "worker/runtime/precision.h"
#include "worker/runtime/rehearsal.h"

namespace sangam {
namespace {

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / (1024 * 1024); }

absl::Status CheckMemory(const WorkerMemory& need, uint64_t data, uint64_t limit) {
  const uint64_t total = need.total() + data;
  if (limit == 0 || total <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the job needs about %.1f MiB of memory on this worker (data %.1f, weights %.1f, gradients "
      "%.1f, activations %.1f, messages %.1f, prepared batches %.1f); memory_limit is %.1f MiB",
      MiB(total), MiB(data), MiB(need.weights), MiB(need.gradients), MiB(need.activations),
      MiB(need.messages), MiB(need.batches), MiB(limit)));
}

absl::Status BuildBlocks(PreparedJob* job) {
  const v1::ModelSpec& model = job->spec.model();
  const v1::ModelLayout& layout = job->plan.layout();
  if (model.block_size() != layout.block_size()) {
    return absl::InvalidArgumentError(absl::StrCat("plan.layout: found ", layout.block_size(),
                                                   " blocks, expected ", model.block_size(),
                                                   " as in the model"));
  }
  job->blocks.resize(static_cast<size_t>(model.block_size()));
  for (const uint32_t b : BlocksOf(job->plan, job->worker)) {
    ASSIGN_OR_RETURN(job->blocks[b], Block::Create(model, layout, b), "model.block[%d]", b);
  }
  if (job->wants_labels()) {
    ASSIGN_OR_RETURN(job->loss, Loss::Create(job->spec.loss(), layout.terms_per_sample()));
  }
  return absl::OkStatus();
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

absl::Status OpenData(const PrepareOptions& options, PreparedJob* job) {
  if (job->spec.data().served() || !(job->wants_inputs() || job->wants_labels())) {
    return absl::OkStatus();
  }
  if (options.data_root == nullptr && !job->spec.data().has_synthetic()) {
    return absl::FailedPreconditionError(
        "data: this worker was started without --data_root, so it can only take jobs whose data "
        "the "
        "coordinator serves (data.served)");
  }
  JobDataOptions data;
  data.root = options.data_root;
  data.cancelled = options.cancelled;
  if (options.memory_limit > 0) data.max_memory_bytes = options.memory_limit;
  ASSIGN_OR_RETURN(job->data, OpenJobData(job->spec, job->plan.layout(), data));
  if (job->data.skipped_lines > 0) {
    LogInfo("lines with missing values left out", "job=%d lines=%d", job->plan.job(),
            job->data.skipped_lines);
  }
  return absl::OkStatus();
}

absl::Status BuildPipelineLink(const PrepareOptions& options, uint32_t lanes, uint32_t slots,
                               PreparedJob* job) {
  if (BoundariesOf(job->plan).empty()) return absl::OkStatus();
  PipelineLinkOptions link;
  link.plan = &job->plan;
  link.worker = job->worker;
  link.lanes = lanes;
  link.max_rows = job->cut.MaxMicroBatchSize();
  link.kept = slots * lanes;
  ASSIGN_OR_RETURN(job->pipeline, options.make_pipeline_link(link), "pipeline link");
  return absl::OkStatus();
}

// More rows than this make a pass no faster.
constexpr uint64_t kGroupRows = 128;
// Of activations and batches: where they are larger, products are too, and gain nothing.
constexpr uint64_t kGroupBytes = uint64_t{64} << 20;

// How many shares are computed together.
uint32_t GroupFor(const PreparedJob& job, const PrepareOptions& options, const WorkerMemory& need) {
  if (!RowsStandAlone(options.backend, ToPrecision(job.spec.precision()), options.device)) return 1;
  for (const uint32_t b : BlocksOf(job.plan, job.worker)) {
    if (!job.blocks[b]->rows_stand_alone()) return 1;
  }
  if (job.plan.ranks() > 1 || ChunksOf(job.plan) != 1 || job.cut.micro_batches != job.cut.shares) {
    return 1;
  }
  const uint64_t rows = std::max<uint64_t>(1, job.cut.MaxMicroBatchSize());
  const auto group =
      static_cast<uint32_t>(std::min<uint64_t>(kGroupRows / rows, job.shares.size()));
  if (group <= 1) return 1;
  // Activations and batches grow with it.
  if (need.activations > kGroupBytes || need.batches > kGroupBytes) return 1;
  const uint64_t more = (need.activations + need.batches) * group;
  if (more > kGroupBytes) return 1;
  if (options.memory_limit > 0 &&
      need.total() + job.data.memory_bytes() + more > options.memory_limit) {
    return 1;
  }
  return group;
}

uint32_t LargestGroup(const StepProgram& program) {
  uint32_t largest = 1;
  for (const std::vector<Instruction>& list : program.lanes) {
    for (const Instruction& instruction : list) largest = std::max(largest, instruction.count);
  }
  return largest;
}

void ShareWeights(PreparedJob* job) {
  const DeviceMemory* const device = job->lanes.front().device.get();
  if (device == nullptr) return;
  std::map<uint32_t, Matrix> places;
  for (const auto& [segment, memory] : device->weights) {
    places[segment] = {memory->data(), 1, memory->size()};
  }
  job->device_weights = std::make_unique<DeviceWeights>(places);
}

}  // namespace

bool PreparedJob::wants_inputs() const { return HasFirstBlock(plan, worker); }
bool PreparedJob::wants_labels() const { return HasLastBlock(plan, worker); }

v1::ReadyReport PreparedJob::Facts() const {
  v1::ReadyReport facts;
  if (data.train == nullptr) return facts;
  facts.set_train_samples(data.train->num_samples());
  facts.set_test_samples(data.test_samples());
  facts.set_classes(data.classes());
  return facts;
}

BatchOptions PreparedJob::WantedBatches() const {
  BatchOptions options;
  options.lanes = lanes.size();
  options.ahead = kBatchesAhead * group;
  options.max_rows = cut.MaxMicroBatchSize();
  for (const LaneMemory& lane : lanes) {
    // Batches are held by the slots of the first chunk or of the last; with one stage both are one.
    if (wants_inputs()) options.held = std::max(options.held, lane.stages.front().slots.size());
    if (wants_labels()) options.held = std::max(options.held, lane.stages.back().slots.size());
  }
  if (wants_inputs()) {
    options.input_elements = 1;
    for (const uint64_t d : spec.model().input_shape()) options.input_elements *= d;
  }
  if (wants_labels()) options.labels_per_sample = plan.layout().terms_per_sample();
  return options;
}

absl::StatusOr<std::unique_ptr<PreparedJob>> PrepareJob(const v1::Assignment& assignment,
                                                        uint32_t worker,
                                                        const PrepareOptions& options) {
  ASSIGN_OR_RETURN(const uint32_t lanes, NumLanes(assignment.plan(), worker, options.threads));
  RETURN_IF_ERROR(CheckStages(assignment.plan()));
  auto job = std::make_unique<PreparedJob>();
  job->spec = assignment.spec();
  job->plan = assignment.plan();
  job->worker = worker;
  job->graphs = options.graphs;
  const v1::Span& shares = job->plan.worker(static_cast<int>(worker)).shares();
  job->shares = {shares.begin(), shares.end()};
  if (lanes == 0) return job;
  RETURN_IF_ERROR(CheckCut(assignment));
  for (const v1::BlockSpec& block : job->spec.model().block()) {
    job->recompute.push_back(block.recompute());
  }
  if (SplitsBackward(job->plan.schedule())) job->backward_mode = BackwardMode::kSplit;
  job->cut.batch_size = job->spec.batch().size();
  job->cut.micro_batches = job->plan.micro_batches();
  job->cut.shares = job->plan.shares();
  // Refuses plans that this worker cannot follow before anything is opened for them.
  ProgramInputs inputs;
  inputs.worker = worker;
  inputs.lanes = lanes;
  inputs.recompute = job->recompute;
  ASSIGN_OR_RETURN(StepProgram program, BuildStepProgram(job->plan, inputs, RoundKind::kTrain));
  const std::vector<uint32_t> slots = SlotsOf(program, ChunksOf(job->plan));

  ASSIGN_OR_RETURN(WorkerMemory need, MemoryOf(job->plan, job->spec, worker, lanes));
  ASSIGN_OR_RETURN(const BackendDevice device, DescribeBackend(options.backend, options.device));
  // Activations lie on the device alone; the host has a copy of everything else.
  if (device.memory_bytes > 0) need.activations = 0;
  RETURN_IF_ERROR(CheckMemory(need, 0, options.memory_limit));
  RETURN_IF_ERROR(OpenData(options, job.get()));
  if (job->data.train != nullptr) {
    RETURN_IF_ERROR(CheckMemory(need, job->data.memory_bytes(), options.memory_limit));
  }
  RETURN_IF_ERROR(BuildBlocks(job.get()));
  job->group = GroupFor(*job, options, need);
  if (job->group > 1) {
    inputs.group = job->group;
    ASSIGN_OR_RETURN(program, BuildStepProgram(job->plan, inputs, RoundKind::kTrain));
    job->group = LargestGroup(program);
  }
  ASSIGN_OR_RETURN(job->store, SegmentStore::Create(job->plan, SegmentsOf(job->plan, worker),
                                                    assignment.first_step()));
  ASSIGN_OR_RETURN(job->outbox, GradientOutbox::Create(job->plan, worker, lanes));
  if (!IsNative(options.backend, ToPrecision(job->spec.precision()), options.device)) {
    LogInfo("precision has no instructions on this machine", "job=%d precision=%s", job->plan.job(),
            v1::Precision_Name(job->spec.precision()));
  }
  for (uint32_t l = 0; l < lanes; ++l) {
    LaneMemoryOptions lane;
    lane.backend = options.backend;
    lane.device = options.device;
    lane.lane = l;
    lane.lanes = lanes;
    lane.slots = SlotsOf(program.lanes[l], ChunksOf(job->plan));
    ASSIGN_OR_RETURN(LaneMemory memory, BuildLaneMemory(*job, lane), "memory of lane %d", l);
    job->lanes.push_back(std::move(memory));
  }
  ShareWeights(job.get());
  for (uint32_t l = 0; l < lanes; ++l) {
    RETURN_IF_ERROR(RehearseLane(job.get(), l), "lane %d of %d", l, lanes);
  }
  RETURN_IF_ERROR(
      BuildPipelineLink(options, lanes, *std::max_element(slots.begin(), slots.end()), job.get()));
  return job;
}

}  // namespace sangam
