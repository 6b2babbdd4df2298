#include "worker/core/step_program.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "proto/plan.pb.h"
#include "worker/core/instruction.h"

namespace sangam {
namespace {

// The blocks of the worker's stage, as the lists need them.
struct StageBlocks {
  uint32_t first = 0;
  uint32_t end = 0;
  // Lowest block of the stage with parameters: no gradient is needed below it. `end` when none has.
  uint32_t first_trained = 0;
  std::vector<bool> has_weights;  // by block
};

absl::StatusOr<StageBlocks> FindStage(const v1::Plan& plan, const v1::WorkerPlan& worker) {
  if (plan.stage_size() != 1) {
    return absl::UnimplementedError(
        absl::StrCat("plan.stage: found ", plan.stage_size(),
                     " stages, this worker computes whole models only"));
  }
  if (worker.stage() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("stage of worker \"", worker.name(),
                                                   "\": found ", worker.stage(), ", expected 0"));
  }
  const v1::StagePlan& stage = plan.stage(0);
  const uint32_t blocks = static_cast<uint32_t>(plan.layout().block_size());
  if (stage.first_block() != 0 || stage.block_count() != blocks || blocks == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.stage[0]: found blocks from ", stage.first_block(), ", ", stage.block_count(),
        " of them, expected all ", blocks, " blocks of the model"));
  }
  StageBlocks found;
  found.end = blocks;
  found.first_trained = blocks;
  for (uint32_t b = blocks; b-- > 0;) {
    if (plan.layout().block(b).segment() >= 0) found.first_trained = b;
  }
  for (const v1::BlockLayout& block : plan.layout().block()) {
    found.has_weights.push_back(block.segment() >= 0);
  }
  if (found.first_trained == blocks) {
    return absl::InvalidArgumentError(
        "plan.layout: no block has parameters, nothing can be trained");
  }
  return found;
}

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

// Appends one micro-batch's way up: what training and evaluation have in common.
void AppendForward(const StageBlocks& stage, uint32_t index, bool first_of_round,
                   std::vector<Instruction>* list) {
  list->push_back({Op::kLoadBatch, 0, index});
  for (uint32_t b = stage.first; b < stage.end; ++b) {
    if (first_of_round && stage.has_weights[b]) list->push_back({Op::kAwaitWeights, b});
    list->push_back({Op::kForward, b});
  }
}

std::vector<Instruction> TrainLane(const StageBlocks& stage, const BatchCut& cut,
                                   IndexRange shares) {
  std::vector<Instruction> list;
  for (uint64_t s = shares.begin; s < shares.end; ++s) {
    const uint32_t share = static_cast<uint32_t>(s);
    const IndexRange micro_batches = cut.ShareMicroBatches(share);
    for (uint64_t m = micro_batches.begin; m < micro_batches.end; ++m) {
      const uint32_t index = static_cast<uint32_t>(m);
      AppendForward(stage, index, list.empty(), &list);
      list.push_back({Op::kLoss, 0, index});
      for (uint32_t b = stage.end; b-- > stage.first_trained;) {
        list.push_back({Op::kBackward, b, 0, b > stage.first_trained});
        if (m + 1 == micro_batches.end && stage.has_weights[b]) {
          list.push_back({Op::kEmitGradient, b, share});
        }
      }
    }
    list.push_back({Op::kEndShare, 0, share});
  }
  return list;
}

absl::StatusOr<StepProgram> TrainProgram(const v1::Plan& plan, const v1::WorkerPlan& worker,
                                         const ProgramInputs& inputs, const StageBlocks& stage) {
  BatchCut cut;
  cut.micro_batches = plan.micro_batches();
  cut.shares = plan.shares();
  const uint32_t count = worker.shares().end() - worker.shares().begin();
  if (inputs.lanes > count) {
    return absl::InvalidArgumentError(absl::StrCat("found ", inputs.lanes, " lanes for ", count,
                                                   " shares, expected at most one for each"));
  }
  StepProgram program;
  for (uint32_t l = 0; l < inputs.lanes; ++l) {
    const IndexRange part = EvenPart(count, inputs.lanes, l);
    const uint64_t first = worker.shares().begin();
    program.lanes.push_back(TrainLane(stage, cut, {first + part.begin, first + part.end}));
  }
  return program;
}

absl::StatusOr<StepProgram> EvaluateProgram(const v1::WorkerPlan& worker,
                                            const ProgramInputs& inputs, const StageBlocks& stage) {
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
  program.lanes.resize(inputs.lanes);
  uint64_t lane = 0;
  for (uint64_t c = worker.evaluation_part(); parts > 0 && c < inputs.evaluation_chunks;
       c += parts) {
    std::vector<Instruction>& list = program.lanes[lane];
    AppendForward(stage, static_cast<uint32_t>(c), list.empty(), &list);
    list.push_back({Op::kScore, 0, static_cast<uint32_t>(c)});
    lane = (lane + 1) % inputs.lanes;
  }
  for (std::vector<Instruction>& list : program.lanes) list.push_back({Op::kEndEvaluation});
  return program;
}

StepProgram FinishProgram(const ProgramInputs& inputs, const StageBlocks& stage) {
  StepProgram program;
  program.lanes.resize(inputs.lanes);
  for (std::vector<Instruction>& list : program.lanes) {
    for (uint32_t b = stage.first; b < stage.end; ++b) {
      if (stage.has_weights[b]) list.push_back({Op::kAwaitWeights, b});
    }
  }
  return program;
}

}  // namespace

absl::StatusOr<uint32_t> NumLanes(const v1::Plan& plan, uint32_t worker, uint32_t threads) {
  ASSIGN_OR_RETURN(const v1::WorkerPlan* found, FindWorker(plan, worker));
  return std::min(std::max(threads, 1u), found->shares().end() - found->shares().begin());
}

absl::StatusOr<StepProgram> BuildStepProgram(const v1::Plan& plan, const ProgramInputs& inputs,
                                             RoundKind kind) {
  ASSIGN_OR_RETURN(const v1::WorkerPlan* worker, FindWorker(plan, inputs.worker));
  ASSIGN_OR_RETURN(const StageBlocks stage, FindStage(plan, *worker));
  if (inputs.lanes == 0) {
    return absl::InvalidArgumentError("lanes: found 0, expected at least 1");
  }
  switch (kind) {
    case RoundKind::kTrain:
      return TrainProgram(plan, *worker, inputs, stage);
    case RoundKind::kEvaluate:
      return EvaluateProgram(*worker, inputs, stage);
    case RoundKind::kFinish:
      return FinishProgram(inputs, stage);
  }
  return absl::InternalError("unknown kind of round");
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
