#include "common/plan/worker_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/plan/batch_cut.h"
#include "common/plan/pipeline_layout.h"
#include "common/plan/saturating.h"
#include "common/plan/schedule.h"
#include "common/plan/span.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

uint64_t CeilLog2(uint64_t n) {
  uint64_t log = 0;
  while (log < 63 && (uint64_t{1} << log) < n) ++log;
  return log;
}

ShareSpan SharesOf(const v1::WorkerPlan& worker) {
  return {worker.shares().begin(), worker.shares().end()};
}

// Adds up the memory of one worker, stage by stage.
class MemorySum {
 public:
  // All borrowed.
  MemorySum(const v1::ModelLayout& layout, const v1::ModelSpec& model,
            const std::vector<v1::StagePlan>& stages, const WorkerLoad& load)
      : layout_(layout),
        model_(model),
        stages_(stages),
        load_(load),
        feeds_skip_(static_cast<size_t>(layout.block_size())) {
    for (const uint32_t slots : load.slots) kept_ = std::max<uint64_t>(kept_, slots);
    for (const v1::BlockLayout& block : layout.block()) {
      if (block.has_skip_from()) feeds_skip_[block.skip_from()] = true;
    }
  }

  void AddStage(const v1::StagePlan& stage, uint64_t slots) {
    const uint32_t end = stage.first_block() + stage.block_count();
    for (uint32_t b = stage.first_block(); b < end; ++b) {
      AddParameters(b);
      AddActivations(b, slots);
    }
    AddMessages(stage.first_block(), end);
    const uint64_t held = SaturatingSum(kBatchesAhead, slots);
    if (stage.first_block() == 0) {
      AddBatches(held, SaturatingElements(layout_.block(0).input_shape()));
    }
    if (end == static_cast<uint32_t>(layout_.block_size())) {
      AddBatches(held, std::max<uint64_t>(1, layout_.terms_per_sample()));
    }
  }

  const WorkerMemory& memory() const { return memory_; }

 private:
  const v1::BlockLayout& Block(uint32_t b) const { return layout_.block(static_cast<int>(b)); }

  // Bytes of one sample of a block's output.
  uint64_t OutputBytes(uint32_t b) const {
    return SaturatingProduct(SaturatingElements(Block(b).output_shape()), sizeof(float));
  }

  void AddUse(uint32_t segment, bool held) {
    const uint64_t bytes = SaturatingProduct(
        layout_.segment(static_cast<int>(segment)).element_count(), sizeof(float));
    if (!held) memory_.weights = SaturatingSum(memory_.weights, bytes);
    memory_.gradients =
        SaturatingSum(memory_.gradients, SaturatingProduct(bytes, load_.gradient_buffers));
  }

  // Blocks share the parameters of earlier ones only, so a block's own are never held already.
  void AddParameters(uint32_t b) {
    if (Block(b).segment() >= 0) {
      held_.push_back(static_cast<uint32_t>(Block(b).segment()));
      AddUse(held_.back(), false);
    }
    if (!Block(b).has_tied_segment()) return;
    const uint32_t tied = Block(b).tied_segment();
    const bool held = std::find(held_.begin(), held_.end(), tied) != held_.end();
    if (!held) held_.push_back(tied);
    AddUse(tied, held);
  }

  bool Recomputes(uint32_t b) const {
    return static_cast<int>(b) < model_.block_size() &&
           model_.block(static_cast<int>(b)).recompute();
  }

  bool Holds(uint32_t b) const {
    return std::any_of(stages_.begin(), stages_.end(), [b](const v1::StagePlan& stage) {
      return b >= stage.first_block() && b < stage.first_block() + stage.block_count();
    });
  }

  void AddActivations(uint32_t b, uint64_t slots) {
    const uint64_t scratches = load_.splits_backward && !Recomputes(b) ? slots : 1;
    uint64_t bytes = SaturatingSum(SaturatingProduct(Block(b).activation_bytes(), slots),
                                   SaturatingProduct(Block(b).scratch_bytes(), scratches));
    const bool last = b + 1 == static_cast<uint32_t>(layout_.block_size());
    if (last || feeds_skip_[b] || (load_.splits_backward && Recomputes(b + 1))) {
      bytes = SaturatingSum(bytes, SaturatingProduct(OutputBytes(b), slots));
    }
    if (Block(b).has_skip_from()) {
      bytes = SaturatingSum(bytes, SaturatingProduct(SaturatingElements(Block(b).input_shape()),
                                                     sizeof(float), slots));
    }
    memory_.activations =
        SaturatingSum(memory_.activations, SaturatingProduct(bytes, load_.rows, load_.lanes));
  }

  void AddMessages(uint32_t begin, uint32_t end) {
    const auto add = [&](uint32_t from_block, uint64_t tensors) {
      memory_.messages = SaturatingSum(
          memory_.messages,
          SaturatingProduct(OutputBytes(from_block), tensors, load_.rows, load_.lanes));
    };
    const uint64_t received = SaturatingSum(load_.credits, kept_);
    const uint64_t both = SaturatingSum(received, load_.credits);
    const auto blocks = static_cast<uint32_t>(layout_.block_size());
    if (begin > 0) add(begin - 1, both);
    if (end < blocks) add(end - 1, both);
    for (uint32_t b = begin; b < blocks; ++b) {
      if (!Block(b).has_skip_from()) continue;
      const uint32_t from = Block(b).skip_from();
      const bool comes = b < end && from < begin;
      const bool leaves = b >= end && from >= begin && from < end;
      // Between two stages of one worker one memory serves both ends.
      if (comes || leaves) add(from, Holds(from) && Holds(b) ? received : both);
    }
  }

  void AddBatches(uint64_t held, uint64_t elements) {
    memory_.batches = SaturatingSum(
        memory_.batches, SaturatingProduct(elements, sizeof(float), held, load_.rows, load_.lanes));
  }

  const v1::ModelLayout& layout_;
  const v1::ModelSpec& model_;
  const std::vector<v1::StagePlan>& stages_;
  const WorkerLoad& load_;
  std::vector<bool> feeds_skip_;  // by block
  uint64_t kept_ = 0;  // tensors of one boundary and direction that a lane keeps, at most
  WorkerMemory memory_;
  std::vector<uint32_t> held_;  // segments whose weights have been counted
};

}  // namespace

uint64_t WorkerMemory::total() const {
  return SaturatingSum(
      SaturatingSum(SaturatingSum(weights, gradients), SaturatingSum(activations, messages)),
      batches);
}

uint64_t GradientBuffers(ShareSpan worker_shares, uint32_t shares, uint32_t lanes) {
  // A lane's shares are consecutive, so it keeps at most 2 log2(S) + 1 maximal spans waiting.
  const uint64_t waiting =
      std::min<uint64_t>(worker_shares.size(), lanes * (2 * CeilLog2(shares) + 1));
  return lanes + waiting + 2 * MaximalSpans(worker_shares, shares).size();
}

std::set<uint32_t> LaneMicroBatches(const v1::Plan& plan, ShareSpan shares, uint32_t lanes) {
  SANGAM_CHECK(lanes >= 1);
  BatchCut cut;
  cut.micro_batches = plan.micro_batches();
  cut.shares = plan.shares();
  std::set<uint32_t> sizes;
  const uint32_t busy = std::min(lanes, shares.size());  // the others have no share
  for (uint32_t lane = 0; lane < busy; ++lane) {
    const IndexRange dealt = EvenPart(shares.size(), busy, lane);
    const auto first = static_cast<uint32_t>(shares.begin + dealt.begin);
    const auto last = static_cast<uint32_t>(shares.begin + dealt.end - 1);
    sizes.insert(static_cast<uint32_t>(cut.ShareMicroBatches(last).end -
                                       cut.ShareMicroBatches(first).begin));
  }
  return sizes;
}

std::vector<uint32_t> LaneSlots(const v1::Plan& plan, uint32_t worker, uint32_t lanes) {
  const v1::WorkerPlan& self = plan.worker(static_cast<int>(worker));
  const uint32_t chunks = ChunksOf(plan);
  if (SharesOf(self).empty()) return std::vector<uint32_t>(chunks, 0);
  if (plan.ranks() == 1 && chunks == 1) return std::vector<uint32_t>(chunks, 1);
  std::vector<uint32_t> most(chunks, 0);
  // With several chunks a lane of fewer micro-batches may keep more of one of them.
  for (const uint32_t micro_batches : LaneMicroBatches(plan, SharesOf(self), lanes)) {
    const ScheduleShape shape{plan.schedule(), plan.ranks(), chunks, micro_batches};
    const std::vector<uint32_t> slots = InFlight(RankPasses(shape, self.rank()), chunks);
    for (uint32_t c = 0; c < chunks; ++c) most[c] = std::max(most[c], slots[c]);
  }
  return most;
}

WorkerMemory MemoryOfStages(const v1::ModelLayout& layout, const v1::ModelSpec& model,
                            const std::vector<v1::StagePlan>& stages, const WorkerLoad& load) {
  MemorySum sum(layout, model, stages, load);
  for (size_t chunk = 0; chunk < stages.size(); ++chunk) {
    sum.AddStage(stages[chunk], load.slots[chunk]);
  }
  return sum.memory();
}

absl::StatusOr<WorkerMemory> MemoryOf(const v1::Plan& plan, const v1::JobSpec& spec,
                                      uint32_t worker, uint32_t lanes) {
  SANGAM_CHECK(lanes >= 1);
  if (worker >= static_cast<uint32_t>(plan.worker_size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker: found ", worker, ", expected less than the plan's ", plan.worker_size()));
  }
  const ShareSpan shares = SharesOf(plan.worker(static_cast<int>(worker)));
  if (plan.shares() == 0 || plan.micro_batches() < plan.shares() || shares.begin > shares.end ||
      shares.end > plan.shares()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.worker[", worker, "].shares: found ", ToString(shares), ", expected shares of [0,",
        plan.shares(), "), which cut ", plan.micro_batches(), " micro-batches"));
  }
  if (shares.empty()) return WorkerMemory();
  BatchCut cut;
  cut.batch_size = spec.batch().size();
  cut.micro_batches = plan.micro_batches();
  WorkerLoad load;
  load.rows = cut.MaxMicroBatchSize();
  load.lanes = lanes;
  load.credits = plan.credits();
  load.gradient_buffers = GradientBuffers(shares, plan.shares(), lanes);
  load.splits_backward = plan.ranks() > 1 && SplitsBackward(plan.schedule());
  load.slots = LaneSlots(plan, worker, lanes);
  std::vector<v1::StagePlan> stages;
  for (uint32_t chunk = 0; chunk < ChunksOf(plan); ++chunk) {
    stages.push_back(plan.stage(static_cast<int>(StageOf(plan, worker, chunk))));
  }
  return MemoryOfStages(plan.layout(), spec.model(), stages, load);
}

}  // namespace sangam
