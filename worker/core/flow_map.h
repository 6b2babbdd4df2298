#ifndef SANGAM_WORKER_CORE_FLOW_MAP_H_
#define SANGAM_WORKER_CORE_FLOW_MAP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/pipeline_layout.h"
#include "proto/plan.pb.h"
#include "worker/core/flow_tag.h"
#include "worker/core/lane_deal.h"

namespace sangam {

// A boundary with the workers at its ends, which may be the same one.
struct FlowEdge {
  Boundary boundary;
  uint32_t from_worker = 0;  // computes from_block
  uint32_t to_worker = 0;    // computes to_block

  uint32_t SenderOf(FlowDirection direction) const {
    return direction == FlowDirection::kForward ? from_worker : to_worker;
  }
  uint32_t ReceiverOf(FlowDirection direction) const {
    return direction == FlowDirection::kForward ? to_worker : from_worker;
  }
};

// The boundaries that one worker has a part in, and which lane every tensor belongs to. Immutable;
// outlives the plan that it was made of.
class FlowMap {
 public:
  // REQUIRES: CheckStages(plan) is OK.
  // Errors: InvalidArgument  no such worker, no lanes, a worker of its pipeline is missing, or the
  //                          plan's shares contradict themselves
  static absl::StatusOr<FlowMap> Create(const v1::Plan& plan, uint32_t worker, uint32_t lanes);

  uint32_t worker() const { return worker_; }
  uint32_t lanes() const { return deal_.lanes(); }
  // By id of the boundary.
  const std::vector<FlowEdge>& edges() const { return edges_; }

  // Errors: InvalidArgument  the worker has no part in such a boundary
  absl::StatusOr<FlowEdge> EdgeOf(uint32_t boundary) const;

  // Which credits a tensor of this worker counts against.
  // Errors: InvalidArgument  a micro-batch or chunk that is not the worker's, or a gradient of an
  //                          evaluation
  absl::StatusOr<FlowRoute> RouteOf(const FlowTag& tag) const;

  // Other workers, ascending: those that this one sends activations to, and gets them from.
  std::vector<uint32_t> PeersBehind() const;
  std::vector<uint32_t> PeersInFront() const;

 private:
  FlowMap(uint32_t worker, LaneDeal deal) : worker_(worker), deal_(deal) {}

  uint32_t worker_;
  LaneDeal deal_;
  std::vector<FlowEdge> edges_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_FLOW_MAP_H_
