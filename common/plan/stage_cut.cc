#include "common/plan/stage_cut.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/plan/batch_cut.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

// Stages that one search looks at: some hundredths of a second.
constexpr uint64_t kMaxLooks = uint64_t{1} << 19;

// The best way to lay some first blocks on some first stages.
struct Prefix {
  double dearest = kImpossible;  // cost of the dearest stage
  double squares = kImpossible;  // sum of the squared costs: less is more even
  uint32_t last_first = 0;       // where the last stage begins
};

bool NotWorse(const Prefix& a, const Prefix& b) {
  return a.dearest != b.dearest ? a.dearest < b.dearest : a.squares <= b.squares;
}

// Places where a stage may end.
struct Range {
  uint32_t low = 0;
  uint32_t high = 0;
};

// A search among the cuts at some of the blocks. Places are counted, from 0: before the first
// block, to `places`: behind the last.
class CutSearch {
 public:
  // Both borrowed; `block_at`: the block behind each place, ascending from 0 to all blocks.
  CutSearch(const std::vector<uint32_t>& block_at, uint32_t stages, const StageCosts& costs)
      : block_at_(block_at),
        places_(static_cast<uint32_t>(block_at.size()) - 1),
        stages_(stages),
        costs_(costs) {}

  // The first block of each stage.
  // Errors: ResourceExhausted  there is no cut
  absl::StatusOr<std::vector<uint32_t>> Best();
  // Whether Best stopped because it had looked at too many stages: what it says means nothing.
  bool gave_up() const { return gave_up_; }

 private:
  StageCost Cost(uint32_t stage, uint32_t first, uint32_t end) {
    ++looks_;
    return costs_(stage, block_at_[first], block_at_[end]);
  }
  bool MayLoad(uint32_t stage, uint32_t first, uint32_t end, double limit) {
    const double load = Cost(stage, first, end).load;
    return load <= limit && load != kImpossible;
  }
  // Where the stages [0, stage] may end at most: each later one needs a place.
  uint32_t MostEnd(uint32_t stage) const { return places_ - (stages_ - stage - 1); }

  double GreedyCost(double limit);
  double Bound();
  std::vector<Range> Ends(double bound);
  Prefix BestPrefix(const std::vector<Prefix>& before, Range firsts, uint32_t stage, uint32_t end,
                    double bound);

  const std::vector<uint32_t>& block_at_;
  const uint32_t places_;
  const uint32_t stages_;
  const StageCosts& costs_;
  uint64_t looks_ = 0;
  bool gave_up_ = false;
};

// Gives each stage as many blocks as cost at most `limit`. The dearest stage's cost; impossible
// when blocks are left or a stage cannot even have one.
double CutSearch::GreedyCost(double limit) {
  double dearest = 0;
  uint32_t first = 0;
  for (uint32_t s = 0; s < stages_; ++s) {
    double own = kImpossible;
    uint32_t taken = first;
    for (uint32_t end = first + 1; end <= MostEnd(s); ++end) {
      const StageCost cost = Cost(s, first, end);
      if (cost.load > limit) break;
      if (cost.other == kImpossible) continue;
      own = std::max(cost.load, cost.other);
      taken = end;
    }
    dearest = std::max(dearest, own);
    if (dearest == kImpossible) return kImpossible;
    first = taken;
  }
  return first == places_ ? dearest : kImpossible;
}

// The cost of some cut, close to the best one's where greedy cuts are good: keeps the search short.
// Infinite when none was found.
double CutSearch::Bound() {
  double bound = GreedyCost(std::numeric_limits<double>::max());
  double low = 0;
  double high = bound;
  for (int i = 0; i < 30 && high != kImpossible; ++i) {
    const double limit = low + (high - low) / 2;
    const double cost = GreedyCost(limit);
    (cost == kImpossible ? low : high) = limit;
    bound = std::min(bound, cost);
  }
  return bound;
}

// Value s: where the first s stages can end when no load exceeds `bound`, on either side of the
// end. No such cut ends elsewhere. Empty when there is none.
std::vector<Range> CutSearch::Ends(double bound) {
  std::vector<Range> ends(stages_ + 1);
  for (uint32_t s = 0; s < stages_; ++s) {
    uint32_t end = ends[s].high + 1;
    while (end < MostEnd(s) && MayLoad(s, ends[s].high, end + 1, bound)) ++end;
    ends[s + 1].high = end;
  }
  ends[stages_].low = places_;
  for (uint32_t s = stages_; s > 0; --s) {
    uint32_t first = ends[s].low - 1;
    while (first > s - 1 && MayLoad(s - 1, first - 1, ends[s].low, bound)) --first;
    ends[s - 1].low = first;
  }
  for (const Range& range : ends) {
    if (range.low > range.high) return {};
  }
  return ends;
}

// `before`: value e is the best prefix that ends at place e, with the stages in front of `stage`.
// Nothing that costs more than `bound` is looked at.
Prefix CutSearch::BestPrefix(const std::vector<Prefix>& before, Range firsts, uint32_t stage,
                             uint32_t end, double bound) {
  Prefix best;
  for (uint32_t first = std::min(end, firsts.high + 1); first-- > firsts.low;) {
    ++looks_;
    if (before[first].dearest > bound || before[first].dearest == kImpossible) continue;
    const StageCost cost = Cost(stage, first, end);
    // More blocks only load more.
    if (cost.load > std::min(bound, best.dearest) || cost.load == kImpossible) break;
    const double own = std::max(cost.load, cost.other);
    const Prefix candidate{std::max(before[first].dearest, own), before[first].squares + own * own,
                           first};
    if (candidate.dearest != kImpossible && NotWorse(candidate, best)) best = candidate;
  }
  return best;
}

absl::StatusOr<std::vector<uint32_t>> CutSearch::Best() {
  const absl::Status none = absl::ResourceExhaustedError(absl::StrCat(
      "no cut of ", block_at_.back(), " blocks into ", stages_, " stages is possible"));
  const double bound = Bound();
  const std::vector<Range> ends = Ends(bound);
  if (ends.empty()) return none;
  std::vector<Prefix> before(places_ + 1);
  before[0] = {0, 0, 0};
  std::vector<std::vector<uint32_t>> last_first(stages_);  // by stage and end
  for (uint32_t s = 0; s < stages_; ++s) {
    const Range range = ends[s + 1];
    std::vector<Prefix> best(places_ + 1);
    for (uint32_t end = range.low; end <= range.high; ++end) {
      best[end] = BestPrefix(before, ends[s], s, end, bound);
      last_first[s].push_back(best[end].last_first);
      gave_up_ = looks_ > kMaxLooks && places_ > stages_;
      if (gave_up_) return none;
    }
    before = std::move(best);
  }
  if (before[places_].dearest == kImpossible) return none;
  std::vector<uint32_t> firsts(stages_);
  uint32_t end = places_;
  for (uint32_t s = stages_; s > 0; --s) {
    end = last_first[s - 1][end - ends[s].low];
    firsts[s - 1] = block_at_[end];
  }
  return firsts;
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
  for (uint32_t together = 1;; together *= 2) {
    const uint32_t places = std::max(stages, (blocks + together - 1) / together);
    std::vector<uint32_t> block_at;
    for (uint32_t p = 0; p < places; ++p) {
      block_at.push_back(static_cast<uint32_t>(EvenPart(blocks, places, p).begin));
    }
    block_at.push_back(blocks);
    CutSearch search(block_at, stages, costs);
    const absl::StatusOr<std::vector<uint32_t>> firsts = search.Best();
    if (search.gave_up()) continue;
    if (!firsts.ok()) return firsts.status();
    return ToStages(*firsts, blocks);
  }
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
