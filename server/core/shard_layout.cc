#include "server/core/shard_layout.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/optimizer_check.h"
#include "common/model/weight_decay.h"
#include "common/plan/page_map.h"
#include "common/plan/saturating.h"
#include "common/plan/server_memory.h"
#include "common/plan/span.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "server/core/optimizer.h"
#include "server/core/parameter_page.h"

namespace sangam {
namespace {

// A payload shares the blocks of 64 KiB that it begins and ends in with its neighbours; a short one
// is copied.
constexpr uint64_t kFrameOverheadBytes = uint64_t{128} * 1024;
// A worker's message that is being received, the next one, and what the kernel has handed over.
constexpr uint64_t kStreamBytes = uint64_t{4} << 20;

// 1 GiB in fp32: more fits no message, and sums of bytes stay within 64 bits.
constexpr uint64_t kMaxPageElements = uint64_t{1} << 28;

absl::StatusOr<uint32_t> ServerIndex(const v1::Plan& plan, const std::string& name) {
  for (int i = 0; i < plan.server_size(); ++i) {
    if (plan.server(i).name() == name) return static_cast<uint32_t>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat("plan.server: found ", plan.server_size(),
                                                 " servers, expected one called '", name, "'"));
}

absl::Status CheckParameter(const v1::SegmentLayout& segment, const v1::ParameterLayout& parameter,
                            uint64_t num_parameters) {
  // Decisions about steps have sums for each.
  if (parameter.parameter_index() >= num_parameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter '", parameter.name(), "': parameter_index: found ",
                     parameter.parameter_index(), ", expected less than ", num_parameters));
  }
  if (parameter.offset() > segment.element_count() ||
      parameter.element_count() > segment.element_count() - parameter.offset()) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter '", parameter.name(), "': found elements from ", parameter.offset(),
                     ", ", parameter.element_count(),
                     " of them, expected them within the segment's ", segment.element_count()));
  }
  if (parameter.initializer().kind_case() == v1::InitializerSpec::KIND_NOT_SET) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter '", parameter.name(), "': initializer: found none"));
  }
  if (parameter.fan_in() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter '", parameter.name(), "': fan_in: found 0, expected at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckLayout(const v1::ModelLayout& layout) {
  uint64_t parameters = 0;
  for (const v1::SegmentLayout& segment : layout.segment()) {
    parameters += static_cast<uint64_t>(segment.parameter_size());
  }
  for (const v1::SegmentLayout& segment : layout.segment()) {
    for (const v1::ParameterLayout& parameter : segment.parameter()) {
      RETURN_IF_ERROR(CheckParameter(segment, parameter, parameters));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<ParameterRange> ParameterRanges(const v1::SegmentLayout& segment,
                                            const v1::OptimizerSpec& optimizer, uint64_t first,
                                            uint64_t count) {
  std::vector<ParameterRange> ranges;
  for (const v1::ParameterLayout& parameter : segment.parameter()) {
    ParameterRange range;
    range.begin = std::max(parameter.offset(), first);
    range.end = std::min(parameter.offset() + parameter.element_count(), first + count);
    if (range.begin >= range.end) continue;
    range.begin -= first;
    range.end -= first;
    range.parameter = parameter.parameter_index();
    range.weight_decay = WeightDecayOf(optimizer, parameter);
    range.average_rate = parameter.average_rate();
    if (!ranges.empty() && !optimizer.has_lamb() && ranges.back().end == range.begin &&
        ranges.back().weight_decay == range.weight_decay &&
        ranges.back().average_rate == range.average_rate) {
      ranges.back().end = range.end;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

absl::StatusOr<ShardLayout> LayOutShard(const v1::Assignment& assignment,
                                        const std::string& server_name) {
  const v1::Plan& plan = assignment.plan();
  if (plan.shares() == 0) {
    return absl::InvalidArgumentError("plan.shares: found 0, expected at least 1");
  }
  if (plan.page_elements() > kMaxPageElements) {
    return absl::InvalidArgumentError(absl::StrCat("plan.page_elements: found ",
                                                   plan.page_elements(), ", expected at most ",
                                                   kMaxPageElements));
  }
  RETURN_IF_ERROR(CheckLayout(plan.layout()));
  ASSIGN_OR_RETURN(const uint32_t server, ServerIndex(plan, server_name));
  ASSIGN_OR_RETURN(PageMap map, PageMap::Create(plan));
  v1::OptimizerSpec optimizer_spec = assignment.spec().optimizer();
  ResolveOptimizer(&optimizer_spec);
  ASSIGN_OR_RETURN(Optimizer optimizer, Optimizer::Create(optimizer_spec));
  std::vector<PageLayout> pages;
  const uint64_t copies = SnapshotsAtOnce(assignment.spec());
  uint64_t memory_bytes = 0;
  for (uint32_t segment = 0; segment < map.num_segments(); ++segment) {
    const v1::SegmentLayout& layout = plan.layout().segment(static_cast<int>(segment));
    // A layout that lists no uses has the one of the segment's own block.
    const uint32_t uses = std::max(1u, static_cast<uint32_t>(layout.use_size()));
    for (const PageRange& page : map.pages(segment)) {
      if (page.server != server) continue;
      std::vector<ParameterRange> ranges =
          ParameterRanges(layout, optimizer_spec, page.first_element, page.element_count);
      pages.push_back({segment, page.first_element, page.element_count, std::move(ranges), uses});
      memory_bytes += ParameterPage::MemoryBytes(page.element_count, optimizer) +
                      copies * ParameterPage::SnapshotBytes(page.element_count, optimizer);
    }
  }
  return ShardLayout{std::move(map), server,           plan.shares(),
                     optimizer,      std::move(pages), memory_bytes};
}

uint64_t StagingBytes(const v1::Plan& plan, const ShardLayout& layout) {
  // The workers of a pipeline have the same shares, and one of them has the page's block.
  std::set<ShareSpan> pipelines;
  for (const v1::WorkerPlan& worker : plan.worker()) {
    const ShareSpan shares = {worker.shares().begin(), worker.shares().end()};
    if (shares.end <= layout.shares && !shares.empty()) pipelines.insert(shares);
  }
  uint64_t spans = 0;
  for (const ShareSpan& shares : pipelines) spans += MaximalSpans(shares, layout.shares).size();
  uint64_t bytes = static_cast<uint64_t>(plan.worker_size()) * kStreamBytes;
  for (const PageLayout& page : layout.pages) {
    const uint64_t frame = page.element_count * sizeof(float) + kFrameOverheadBytes;
    bytes = SaturatingSum(bytes, SaturatingProduct(frame, spans, page.uses));
  }
  return bytes;
}

}  // namespace sangam
