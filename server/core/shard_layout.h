#ifndef SANGAM_SERVER_CORE_SHARD_LAYOUT_H_
#define SANGAM_SERVER_CORE_SHARD_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/page_map.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "server/core/optimizer.h"

namespace sangam {

// One page of this server.
struct PageLayout {
  uint32_t segment = 0;
  uint64_t first_element = 0;
  uint64_t element_count = 0;
  std::vector<ParameterRange> ranges;  // of the page's elements; sorted, disjoint, without gaps
  uint32_t uses = 1;                   // of the segment
  friend bool operator==(const PageLayout& a, const PageLayout& b) {
    return a.segment == b.segment && a.first_element == b.first_element &&
           a.element_count == b.element_count && a.ranges == b.ranges && a.uses == b.uses;
  }
};

// What one server holds of a job, before any memory is taken.
struct ShardLayout {
  PageMap map;          // of all servers
  uint32_t server = 0;  // this server's index in the plan
  uint32_t shares = 1;  // S
  Optimizer optimizer;
  std::vector<PageLayout> pages;  // of this server, by segment and first element
  uint64_t memory_bytes = 0;      // of all of them, with the copies that checkpoints ask for
};

// The parameters within elements [first, first + count) of a segment, counted from `first`, and how
// each is updated. Neighbours that are updated alike are joined, but not where the optimizer needs
// the norm of each parameter.
// REQUIRES: ResolveOptimizer was called on `optimizer`.
std::vector<ParameterRange> ParameterRanges(const v1::SegmentLayout& segment,
                                            const v1::OptimizerSpec& optimizer, uint64_t first,
                                            uint64_t count);

// Finds what the server called `server_name` holds. A server may hold no page at all.
// Errors: InvalidArgument  a plan that does not name this server or contradicts itself, or an
//                          optimizer that is not valid
absl::StatusOr<ShardLayout> LayOutShard(const v1::Assignment& assignment,
                                        const std::string& server_name);

// Bytes of memory that the job's workers make this server hold at most, when they keep to the plan:
// the gradients of one step that are parked, in the blocks in which they arrive, and the messages
// that are on their way.
uint64_t StagingBytes(const v1::Plan& plan, const ShardLayout& layout);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_SHARD_LAYOUT_H_
