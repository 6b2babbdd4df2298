#include "worker/core/step_program.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "common/plan/pipeline_layout.h"
#include "common/plan/schedule.h"
#include "common/plan/span.h"
#include "proto/plan.pb.h"
#include "worker/core/instruction.h"
#include "worker/core/lane_program.h"

namespace sangam {
namespace {

// Chunks of a window, all lanes together: few enough that the lists stay small (28 bytes for each
// instruction, a few of them for each block), many enough that filling and draining a pipeline once
// for each window costs nothing.
constexpr uint64_t kWindowChunks = 16384;

absl::StatusOr<const v1::WorkerPlan*> FindWorker(const v1::Plan& plan, uint32_t worker) {
  if (worker >= static_cast<uint32_t>(plan.worker_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker index ", worker, ": the plan has ", plan.worker_size(), " workers"));
  }
  if (plan.shares() == 0 || plan.shares() > plan.micro_batches()) {
    return absl::InvalidArgumentError(absl::StrCat("plan.shares: found ", plan.shares(),
                                                   ", expected between 1 and ",
                                                   plan.micro_batches(), " micro-batches"));
  }
  const v1::WorkerPlan& found = plan.worker(static_cast<int>(worker));
  if (found.shares().begin() > found.shares().end() || found.shares().end() > plan.shares()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shares of worker \"", found.name(), "\": found [", found.shares().begin(), ",",
        found.shares().end(), "), expected a range within [0,", plan.shares(), ")"));
  }
  return &found;
}

absl::Status CheckTrained(const v1::Plan& plan) {
  for (const v1::BlockLayout& block : plan.layout().block()) {
    if (block.segment() >= 0) return absl::OkStatus();
  }
  return absl::InvalidArgumentError("plan.layout: no block has parameters, nothing can be trained");
}

ScheduleShape ShapeOf(const v1::Plan& plan, size_t micro_batches) {
  ScheduleShape shape;
  shape.schedule = plan.schedule() == v1::SCHEDULE_UNSPECIFIED ? v1::ONE_F_ONE_B : plan.schedule();
  shape.ranks = plan.ranks();
  shape.chunks = ChunksOf(plan);
  shape.micro_batches = static_cast<uint32_t>(micro_batches);
  return shape;
}

// The micro-batches of the shares [shares.begin, shares.end).
std::vector<LaneMicroBatch> MicroBatchesOf(const v1::Plan& plan, IndexRange shares) {
  BatchCut cut;
  cut.micro_batches = plan.micro_batches();
  cut.shares = plan.shares();
  std::vector<LaneMicroBatch> found;
  for (uint64_t s = shares.begin; s < shares.end; ++s) {
    const auto share = static_cast<uint32_t>(s);
    const IndexRange range = cut.ShareMicroBatches(share);
    for (uint64_t m = range.begin; m < range.end; ++m) {
      found.push_back({static_cast<uint32_t>(m), share, m + 1 == range.end});
    }
  }
  return found;
}

// The node of the tree, or the nodes below it that are no larger than `group`, from left to right.
void AddGroups(ShareSpan node, uint32_t group, std::vector<LaneMicroBatch>* found) {
  if (node.size() > group) {
    const uint32_t middle = SplitPoint(node);
    AddGroups({node.begin, middle}, group, found);
    AddGroups({middle, node.end}, group, found);
    return;
  }
  LaneMicroBatch micro_batches{node.begin, node.begin, true};
  micro_batches.count = node.size();
  found->push_back(micro_batches);
}

// The same where shares are computed together: every share is one micro-batch.
std::vector<LaneMicroBatch> GroupsOf(const v1::Plan& plan, IndexRange shares, uint32_t group) {
  const ShareSpan range{static_cast<uint32_t>(shares.begin), static_cast<uint32_t>(shares.end)};
  std::vector<LaneMicroBatch> found;
  for (const ShareSpan node : MaximalSpans(range, plan.shares())) AddGroups(node, group, &found);
  return found;
}

absl::StatusOr<StepProgram> TrainProgram(const v1::Plan& plan, const v1::WorkerPlan& worker,
                                         const ProgramInputs& inputs, const LaneProgram& writer) {
  const uint32_t count = worker.shares().end() - worker.shares().begin();
  if (inputs.lanes > count) {
    return absl::InvalidArgumentError(absl::StrCat("found ", inputs.lanes, " lanes for ", count,
                                                   " shares, expected at most one for each"));
  }
  const bool groups = inputs.group > 1 && plan.ranks() <= 1 && ChunksOf(plan) == 1 &&
                      plan.micro_batches() == plan.shares();
  StepProgram program;
  for (uint32_t l = 0; l < inputs.lanes; ++l) {
    const IndexRange part = EvenPart(count, inputs.lanes, l);
    const uint64_t first = worker.shares().begin();
    const IndexRange shares{first + part.begin, first + part.end};
    const std::vector<LaneMicroBatch> micro_batches =
        groups ? GroupsOf(plan, shares, inputs.group) : MicroBatchesOf(plan, shares);
    program.lanes.push_back(writer.Train(
        RankPasses(ShapeOf(plan, micro_batches.size()), worker.rank()), micro_batches));
  }
  return program;
}

absl::StatusOr<StepProgram> EvaluateProgram(const v1::Plan& plan, const v1::WorkerPlan& worker,
                                            const ProgramInputs& inputs,
                                            const LaneProgram& writer) {
  const uint32_t parts = worker.evaluation_parts();
  if (parts > 0 && worker.evaluation_part() >= parts) {
    return absl::InvalidArgumentError(absl::StrCat("evaluation_part of worker \"", worker.name(),
                                                   "\": found ", worker.evaluation_part(),
                                                   ", expected less than ", parts));
  }
  if (inputs.evaluation_chunks > UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found ", inputs.evaluation_chunks, " evaluation chunks, expected at most ", UINT32_MAX));
  }
  StepProgram program;
  program.stride = std::max<uint64_t>(1, kWindowChunks / inputs.lanes) * inputs.lanes * parts;
  program.end = inputs.evaluation_chunks;
  if (program.stride > 0 && program.end > program.stride) {
    program.windows = static_cast<uint32_t>((program.end - 1) / program.stride + 1);
  }
  const uint64_t first_end = std::min(program.end, program.stride);
  std::vector<std::vector<LaneMicroBatch>> chunks(inputs.lanes);
  uint64_t lane = 0;
  for (uint64_t c = worker.evaluation_part(); parts > 0 && c < first_end; c += parts) {
    chunks[lane].push_back({static_cast<uint32_t>(c), 0, false});
    lane = (lane + 1) % inputs.lanes;
  }
  for (const std::vector<LaneMicroBatch>& own : chunks) {
    std::vector<Pass> passes;
    if (!own.empty()) passes = RankForwards(ShapeOf(plan, own.size()), worker.rank());
    program.lanes.push_back(writer.Evaluate(passes, own));
  }
  return program;
}

}  // namespace

std::optional<Instruction> InWindow(const StepProgram& program, const Instruction& instruction,
                                    uint32_t window) {
  if (instruction.op == Op::kAwaitWeights) return instruction;
  if (instruction.op == Op::kEndEvaluation) {
    if (window + 1 < program.windows) return std::nullopt;
    return instruction;
  }
  const uint64_t index = instruction.index + window * program.stride;
  if (index >= program.end) return std::nullopt;
  Instruction moved = instruction;
  moved.index = static_cast<uint32_t>(index);
  return moved;
}

absl::StatusOr<uint32_t> NumLanes(const v1::Plan& plan, uint32_t worker, uint32_t threads) {
  ASSIGN_OR_RETURN(const v1::WorkerPlan* found, FindWorker(plan, worker));
  const uint32_t shares = found->shares().end() - found->shares().begin();
  if (plan.ranks() <= 1) return std::min(std::max(threads, 1u), shares);
  if (shares == 0) return 0;
  if (plan.lanes() == 0 || plan.lanes() > shares) {
    return absl::InvalidArgumentError(absl::StrCat("plan.lanes: found ", plan.lanes(),
                                                   ", expected between 1 and the ", shares,
                                                   " shares of worker \"", found->name(), "\""));
  }
  return plan.lanes();
}

absl::StatusOr<StepProgram> BuildStepProgram(const v1::Plan& plan, const ProgramInputs& inputs,
                                             RoundKind kind) {
  ASSIGN_OR_RETURN(const v1::WorkerPlan* worker, FindWorker(plan, inputs.worker));
  RETURN_IF_ERROR(CheckStages(plan));
  RETURN_IF_ERROR(CheckTrained(plan));
  if (inputs.lanes == 0) {
    return absl::InvalidArgumentError("lanes: found 0, expected at least 1");
  }
  std::vector<bool> recompute = inputs.recompute;
  recompute.resize(static_cast<size_t>(plan.layout().block_size()), false);
  const LaneProgram writer(&plan, inputs.worker, &recompute);
  switch (kind) {
    case RoundKind::kTrain:
      return TrainProgram(plan, *worker, inputs, writer);
    case RoundKind::kEvaluate:
      return EvaluateProgram(plan, *worker, inputs, writer);
    case RoundKind::kFinish: {
      StepProgram program;
      program.lanes.assign(inputs.lanes, writer.AwaitAll());
      return program;
    }
  }
  return absl::InternalError("unknown kind of round");
}

std::vector<uint32_t> SlotsOf(const StepProgram& program, uint32_t chunks) {
  std::vector<uint32_t> most(chunks, 0);
  for (const std::vector<Instruction>& list : program.lanes) {
    const std::vector<uint32_t> slots = SlotsOf(list, chunks);
    for (uint32_t c = 0; c < chunks; ++c) most[c] = std::max(most[c], slots[c]);
  }
  return most;
}

std::string ToString(const StepProgram& program) {
  std::string text;
  for (size_t l = 0; l < program.lanes.size(); ++l) {
    absl::StrAppend(&text, "lane ", l, "\n");
    for (const Instruction& instruction : program.lanes[l]) {
      absl::StrAppend(&text, "  ", ToString(instruction), "\n");
    }
  }
  return text;
}

}  // namespace sangam
