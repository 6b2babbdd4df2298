#include "common/plan/pipeline_layout.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/plan/saturating.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

// Index within SegmentLayout.use.
uint32_t UseOf(const v1::SegmentLayout& segment, uint32_t block) {
  for (int u = 0; u < segment.use_size(); ++u) {
    if (segment.use(u) == block) return static_cast<uint32_t>(u);
  }
  SANGAM_CHECK(false);  // CheckStages has looked.
}

bool HasUse(const v1::Plan& plan, int64_t segment, uint32_t block) {
  if (segment >= plan.layout().segment_size()) return false;
  const auto& uses = plan.layout().segment(static_cast<int>(segment)).use();
  return std::find(uses.begin(), uses.end(), block) != uses.end();
}

// That block `to` reads as many elements as block `from` makes.
absl::Status CheckWidth(const v1::Plan& plan, uint32_t from, uint32_t to, const char* as) {
  const uint64_t made =
      SaturatingElements(plan.layout().block(static_cast<int>(from)).output_shape());
  const uint64_t read = SaturatingElements(plan.layout().block(static_cast<int>(to)).input_shape());
  if (made == read && made != UINT64_MAX) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan.layout.block[", to, "].input_shape: found ",
                                                 read, " elements, expected the ", made,
                                                 " of block[", from, "].output_shape, its ", as));
}

absl::Status CheckSchedule(const v1::Plan& plan) {
  const std::string& name = v1::Schedule_Name(plan.schedule());
  if (name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.schedule: found ", static_cast<int>(plan.schedule()),
        ", expected GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE or EAGER_ONE_F_ONE_B"));
  }
  const uint32_t chunks = ChunksOf(plan);
  if (chunks == 1 || plan.schedule() == v1::INTERLEAVED) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan.schedule: found ", name, " with ", chunks,
                                                 " stages on each worker, expected INTERLEAVED"));
}

absl::Status CheckBlocks(const v1::Plan& plan) {
  const auto blocks = static_cast<uint32_t>(plan.layout().block_size());
  for (uint32_t b = 0; b < blocks; ++b) {
    const v1::BlockLayout& block = plan.layout().block(static_cast<int>(b));
    if (block.segment() >= 0 && !HasUse(plan, block.segment(), b)) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan.layout.block[", b, "].segment: found ", block.segment(),
                       ", expected a segment that names the block among its uses"));
    }
    if (block.has_tied_segment() && !HasUse(plan, block.tied_segment(), b)) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan.layout.block[", b, "].tied_segment: found ", block.tied_segment(),
                       ", expected a segment that names the block among its uses"));
    }
    if (block.has_skip_from() && block.skip_from() + 1 >= b) {
      return absl::InvalidArgumentError(absl::StrCat("plan.layout.block[", b, "].skip_from: found ",
                                                     block.skip_from(),
                                                     ", expected a block before the one in front"));
    }
    if (b > 0) RETURN_IF_ERROR(CheckWidth(plan, b - 1, b, "input"));
    if (block.has_skip_from()) RETURN_IF_ERROR(CheckWidth(plan, block.skip_from(), b, "skip_from"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStages(const v1::Plan& plan) {
  const uint32_t ranks = plan.ranks();
  const auto stages = static_cast<uint32_t>(plan.stage_size());
  if (ranks == 0 || stages == 0 || stages % ranks != 0) {
    return absl::InvalidArgumentError(absl::StrCat("plan.ranks: found ", ranks, " for ", stages,
                                                   " stages, expected a divisor of them"));
  }
  uint64_t next = 0;
  for (uint32_t s = 0; s < stages; ++s) {
    const v1::StagePlan& stage = plan.stage(static_cast<int>(s));
    if (stage.first_block() != next || stage.block_count() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan.stage[", s, "]: found ", stage.block_count(), " blocks from ",
                       stage.first_block(), ", expected at least 1 from ", next));
    }
    next += stage.block_count();
  }
  if (next != static_cast<uint64_t>(plan.layout().block_size())) {
    return absl::InvalidArgumentError(absl::StrCat("plan.stage: found ", next,
                                                   " blocks in all, expected the model's ",
                                                   plan.layout().block_size()));
  }
  for (const v1::WorkerPlan& worker : plan.worker()) {
    if (worker.rank() >= ranks) {
      return absl::InvalidArgumentError(absl::StrCat("rank of worker \"", worker.name(),
                                                     "\": found ", worker.rank(),
                                                     ", expected less than ", ranks));
    }
  }
  RETURN_IF_ERROR(CheckSchedule(plan));
  return CheckBlocks(plan);
}

uint32_t ChunksOf(const v1::Plan& plan) {
  return static_cast<uint32_t>(plan.stage_size()) / plan.ranks();
}

uint32_t StageOfBlock(const v1::Plan& plan, uint32_t block) {
  const auto behind = std::upper_bound(
      plan.stage().begin(), plan.stage().end(), block,
      [](uint32_t b, const v1::StagePlan& stage) { return b < stage.first_block(); });
  return static_cast<uint32_t>(behind - plan.stage().begin()) - 1;
}

std::vector<uint32_t> BlocksOf(const v1::Plan& plan, uint32_t worker) {
  std::vector<uint32_t> blocks;
  const v1::Span& shares = plan.worker(static_cast<int>(worker)).shares();
  if (shares.begin() == shares.end()) return blocks;
  for (uint32_t chunk = 0; chunk < ChunksOf(plan); ++chunk) {
    const v1::StagePlan& stage = plan.stage(static_cast<int>(StageOf(plan, worker, chunk)));
    for (uint32_t i = 0; i < stage.block_count(); ++i) blocks.push_back(stage.first_block() + i);
  }
  return blocks;
}

bool HasFirstBlock(const v1::Plan& plan, uint32_t worker) {
  const std::vector<uint32_t> blocks = BlocksOf(plan, worker);
  return !blocks.empty() && blocks.front() == 0;
}

bool HasLastBlock(const v1::Plan& plan, uint32_t worker) {
  const std::vector<uint32_t> blocks = BlocksOf(plan, worker);
  return !blocks.empty() && blocks.back() + 1 == static_cast<uint32_t>(plan.layout().block_size());
}

std::vector<ParameterUse> UsesOf(const v1::Plan& plan, uint32_t worker) {
  std::vector<ParameterUse> uses;
  for (const uint32_t b : BlocksOf(plan, worker)) {
    const v1::BlockLayout& block = plan.layout().block(static_cast<int>(b));
    const auto add = [&](uint32_t segment, bool tied) {
      const uint32_t use = UseOf(plan.layout().segment(static_cast<int>(segment)), b);
      uses.push_back({b, segment, use, tied});
    };
    if (block.segment() >= 0) add(static_cast<uint32_t>(block.segment()), false);
    if (block.has_tied_segment()) add(block.tied_segment(), true);
  }
  return uses;
}

std::vector<uint32_t> SegmentsOf(const v1::Plan& plan, uint32_t worker) {
  std::vector<uint32_t> segments;
  for (const ParameterUse& use : UsesOf(plan, worker)) segments.push_back(use.segment);
  std::sort(segments.begin(), segments.end());
  segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
  return segments;
}

std::vector<Boundary> BoundariesOf(const v1::Plan& plan) {
  std::vector<Boundary> boundaries;
  const auto blocks = static_cast<uint32_t>(plan.layout().block_size());
  const auto add = [&](uint32_t id, uint32_t from, uint32_t to) {
    Boundary boundary;
    boundary.id = id;
    boundary.from_block = from;
    boundary.to_block = to;
    boundary.from_stage = StageOfBlock(plan, from);
    boundary.to_stage = StageOfBlock(plan, to);
    boundary.columns =
        SaturatingElements(plan.layout().block(static_cast<int>(from)).output_shape());
    if (boundary.from_stage != boundary.to_stage) boundaries.push_back(boundary);
  };
  for (uint32_t b = 0; b + 1 < blocks; ++b) add(b, b, b + 1);
  for (uint32_t b = 0; b < blocks; ++b) {
    const v1::BlockLayout& block = plan.layout().block(static_cast<int>(b));
    if (block.has_skip_from()) add(blocks + b, block.skip_from(), b);
  }
  return boundaries;
}

absl::StatusOr<uint32_t> PeerOf(const v1::Plan& plan, uint32_t worker, uint32_t rank) {
  const v1::WorkerPlan& self = plan.worker(static_cast<int>(worker));
  for (int w = 0; w < plan.worker_size(); ++w) {
    const v1::WorkerPlan& other = plan.worker(w);
    if (other.rank() == rank && other.shares().begin() == self.shares().begin() &&
        other.shares().end() == self.shares().end()) {
      return static_cast<uint32_t>(w);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "plan.worker: found none of rank ", rank, " with the shares [", self.shares().begin(), ",",
      self.shares().end(), ") of worker \"", self.name(), "\""));
}

}  // namespace sangam
