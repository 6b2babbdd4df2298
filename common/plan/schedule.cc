#include "common/plan/schedule.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace sangam {
namespace {

// All forward passes, then all backward passes.
std::vector<Pass> GPipe(uint32_t micro_batches) {
  std::vector<Pass> passes;
  for (uint32_t m = 0; m < micro_batches; ++m) passes.push_back({PassKind::kForward, 0, m});
  for (uint32_t m = 0; m < micro_batches; ++m) passes.push_back({PassKind::kBackward, 0, m});
  return passes;
}

// Some forward passes, then forward and backward in turn. `ahead` is how many forward passes for
// each rank behind: 1 fills the pipeline; 2 leaves one more pass's time for every tensor's way.
std::vector<Pass> OneFOneB(uint32_t ranks, uint32_t rank, uint32_t micro_batches, uint32_t ahead) {
  const uint32_t warm_up = std::min(ahead * (ranks - rank - 1), micro_batches);
  std::vector<Pass> passes;
  for (uint32_t m = 0; m < warm_up; ++m) passes.push_back({PassKind::kForward, 0, m});
  for (uint32_t m = warm_up; m < micro_batches; ++m) {
    passes.push_back({PassKind::kForward, 0, m});
    passes.push_back({PassKind::kBackward, 0, m - warm_up});
  }
  for (uint32_t m = micro_batches - warm_up; m < micro_batches; ++m) {
    passes.push_back({PassKind::kBackward, 0, m});
  }
  return passes;
}

// ZB-H1: the order of ONE_F_ONE_B with backward split. Rank r holds r gradients of the weights
// back, which later fill the time in which it would wait for gradients of its output.
std::vector<Pass> ZeroBubble(uint32_t ranks, uint32_t rank, uint32_t micro_batches) {
  std::vector<Pass> passes;
  uint32_t inputs = 0;
  uint32_t weights = 0;
  for (Pass pass : OneFOneB(ranks, rank, micro_batches, 1)) {
    if (pass.kind == PassKind::kForward) {
      passes.push_back(pass);
      continue;
    }
    pass.kind = PassKind::kBackwardInput;
    passes.push_back(pass);
    ++inputs;
    if (inputs - weights > rank) passes.push_back({PassKind::kBackwardWeights, 0, weights++});
  }
  while (weights < micro_batches) passes.push_back({PassKind::kBackwardWeights, 0, weights++});
  return passes;
}

// Every pass of one kind, group by group and within a group chunk by chunk. `count` groups of
// nearly equal size; the first ones get one micro-batch more.
std::vector<Pass> ByGroups(PassKind kind, const ScheduleShape& shape, uint32_t count) {
  const bool forward = kind == PassKind::kForward;
  std::vector<Pass> passes;
  uint32_t begin = 0;
  for (uint32_t g = 0; g < count; ++g) {
    const uint32_t size = shape.micro_batches / count + (g < shape.micro_batches % count ? 1u : 0u);
    for (uint32_t c = 0; c < shape.chunks; ++c) {
      const uint32_t chunk = forward ? c : shape.chunks - 1 - c;
      for (uint32_t m = begin; m < begin + size; ++m) passes.push_back({kind, chunk, m});
    }
    begin += size;
  }
  return passes;
}

// Interleaved 1F1B without the usual "micro-batches divisible by ranks": groups have at least
// `ranks` micro-batches where there are that many, so a chunk never waits for its predecessor.
std::vector<Pass> Interleaved(const ScheduleShape& shape, uint32_t rank) {
  const uint32_t groups = std::max(1u, shape.micro_batches / shape.ranks);
  const uint32_t max_group = (shape.micro_batches + groups - 1) / groups;
  const std::vector<Pass> forwards = ByGroups(PassKind::kForward, shape, groups);
  const std::vector<Pass> backwards = ByGroups(PassKind::kBackward, shape, groups);
  const size_t warm_up = std::min(
      size_t{shape.chunks - 1} * max_group + 2 * size_t{shape.ranks - 1 - rank}, forwards.size());
  std::vector<Pass> passes(forwards.begin(),
                           forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  size_t backward = 0;
  for (size_t forward = warm_up; forward < forwards.size(); ++forward) {
    passes.push_back(forwards[forward]);
    passes.push_back(backwards[backward++]);
  }
  while (backward < backwards.size()) passes.push_back(backwards[backward++]);
  return passes;
}

const char* Letter(PassKind kind) {
  switch (kind) {
    case PassKind::kForward:
      return "F";
    case PassKind::kBackward:
    case PassKind::kBackwardInput:
      return "B";
    case PassKind::kBackwardWeights:
      return "W";
  }
  return "?";
}

}  // namespace

std::string ToString(const std::vector<Pass>& passes, uint32_t chunks) {
  std::string text;
  for (const Pass& pass : passes) {
    if (!text.empty()) text += ' ';
    absl::StrAppend(&text, Letter(pass.kind), pass.micro_batch);
    if (chunks > 1) absl::StrAppend(&text, ".", pass.chunk);
  }
  return text;
}

bool SplitsBackward(v1::Schedule schedule) { return schedule == v1::ZERO_BUBBLE; }

std::vector<Pass> RankPasses(const ScheduleShape& shape, uint32_t rank) {
  SANGAM_CHECK(rank < shape.ranks && shape.micro_batches >= 1 && shape.chunks >= 1);
  SANGAM_CHECK(shape.chunks == 1 || shape.schedule == v1::INTERLEAVED);
  switch (shape.schedule) {
    case v1::GPIPE:
      return GPipe(shape.micro_batches);
    case v1::INTERLEAVED:
      return Interleaved(shape, rank);
    case v1::ZERO_BUBBLE:
      return ZeroBubble(shape.ranks, rank, shape.micro_batches);
    case v1::EAGER_ONE_F_ONE_B:
      return OneFOneB(shape.ranks, rank, shape.micro_batches, 2);
    default:
      return OneFOneB(shape.ranks, rank, shape.micro_batches, 1);
  }
}

std::vector<Pass> RankForwards(const ScheduleShape& shape, uint32_t rank) {
  SANGAM_CHECK(rank < shape.ranks && shape.micro_batches >= 1 && shape.chunks >= 1);
  // A larger group would come back to the first rank, which has no room for it before it has sent
  // the whole group off; a smaller one would let ranks wait.
  const uint32_t groups = (shape.micro_batches + shape.ranks - 1) / shape.ranks;
  return ByGroups(PassKind::kForward, shape, groups);
}

std::vector<uint32_t> InFlight(const std::vector<Pass>& passes, uint32_t chunks) {
  // Those whose backward is split end with the pass of the weights. In a list without backward
  // passes nothing outlives its own pass.
  std::vector<uint32_t> now(chunks, 0);
  std::vector<uint32_t> most(chunks, 0);
  const bool forward_only = std::all_of(passes.begin(), passes.end(), [](const Pass& pass) {
    return pass.kind == PassKind::kForward;
  });
  for (const Pass& pass : passes) {
    SANGAM_CHECK(pass.chunk < chunks);
    if (pass.kind == PassKind::kForward) {
      most[pass.chunk] = std::max(most[pass.chunk], ++now[pass.chunk]);
      if (forward_only) --now[pass.chunk];
    } else if (pass.kind != PassKind::kBackwardInput) {
      --now[pass.chunk];
    }
  }
  return most;
}

}  // namespace sangam
