#include "common/plan/stage_cut.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

// The best way to lay some first blocks on some first stages.
struct Prefix {
  double dearest = kImpossible;  // cost of the dearest stage
  double squares = kImpossible;  // sum of the squared costs: less is more even
  uint32_t last_first = 0;       // first block of the last stage
};

bool NotWorse(const Prefix& a, const Prefix& b) {
  return a.dearest != b.dearest ? a.dearest < b.dearest : a.squares <= b.squares;
}

// `before`: value e is the best prefix of blocks [0, e) on the stages in front of `stage`.
Prefix BestPrefix(const std::vector<Prefix>& before, uint32_t stage, uint32_t end,
                  const StageCosts& costs) {
  Prefix best;
  for (uint32_t first = end; first-- > stage;) {
    const StageCost cost = costs(stage, first, end);
    // More blocks only cost more.
    if (cost.load > best.dearest || cost.load == kImpossible) break;
    const double own = std::max(cost.load, cost.entry);
    const Prefix candidate{std::max(before[first].dearest, own), before[first].squares + own * own,
                           first};
    if (candidate.dearest != kImpossible && NotWorse(candidate, best)) best = candidate;
  }
  return best;
}

std::vector<v1::StagePlan> ToStages(const std::vector<uint32_t>& firsts, uint32_t blocks) {
  std::vector<v1::StagePlan> stages(firsts.size());
  for (size_t s = 0; s < firsts.size(); ++s) {
    const uint32_t end = s + 1 < firsts.size() ? firsts[s + 1] : blocks;
    stages[s].set_first_block(firsts[s]);
    stages[s].set_block_count(end - firsts[s]);
  }
  return stages;
}

}  // namespace

absl::StatusOr<std::vector<v1::StagePlan>> CutBlocks(uint32_t blocks, uint32_t stages,
                                                     const StageCosts& costs) {
  if (stages == 0 || stages > blocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("stages: found ", stages, ", expected 1 to the model's ", blocks, " blocks"));
  }
  // best[s][e]: of blocks [0, e) on the first s stages.
  std::vector<std::vector<Prefix>> best(stages + 1, std::vector<Prefix>(blocks + 1));
  best[0][0] = {0, 0, 0};
  for (uint32_t s = 0; s < stages; ++s) {
    for (uint32_t end = s + 1; end <= blocks - (stages - s - 1); ++end) {
      best[s + 1][end] = BestPrefix(best[s], s, end, costs);
    }
  }
  if (best[stages][blocks].dearest == kImpossible) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no cut of ", blocks, " blocks into ", stages, " stages is possible"));
  }
  std::vector<uint32_t> firsts(stages);
  uint32_t end = blocks;
  for (uint32_t s = stages; s > 0; --s) {
    firsts[s - 1] = best[s][end].last_first;
    end = firsts[s - 1];
  }
  return ToStages(firsts, blocks);
}

absl::StatusOr<std::vector<v1::StagePlan>> CutByNames(const v1::PipelineSpec& pipeline,
                                                      const v1::ModelLayout& layout) {
  std::vector<uint32_t> firsts = {0};
  for (int c = 0; c < pipeline.cut_size(); ++c) {
    const auto& blocks = layout.block();
    const auto found = std::find_if(blocks.begin(), blocks.end(), [&](const auto& block) {
      return block.name() == pipeline.cut(c);
    });
    const auto index = static_cast<uint32_t>(found - blocks.begin());
    if (found == blocks.end() || index <= firsts.back()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "pipeline.cut[", c, "]: found \"", pipeline.cut(c), "\"",
          found == blocks.end() ? ", which is no block" : "", ", expected a block behind \"",
          layout.block(static_cast<int>(firsts.back())).name(), "\""));
    }
    firsts.push_back(index);
  }
  return ToStages(firsts, static_cast<uint32_t>(layout.block_size()));
}

}  // namespace sangam
