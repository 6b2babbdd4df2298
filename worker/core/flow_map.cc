#include "worker/core/flow_map.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/plan/pipeline_layout.h"
#include "proto/plan.pb.h"
#include "worker/core/flow_tag.h"
#include "worker/core/lane_deal.h"

namespace sangam {

absl::StatusOr<FlowMap> FlowMap::Create(const v1::Plan& plan, uint32_t worker, uint32_t lanes) {
  if (worker >= static_cast<uint32_t>(plan.worker_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker: found ", worker, ", expected less than ", plan.worker_size()));
  }
  if (lanes == 0) return absl::InvalidArgumentError("lanes: found 0, expected at least 1");
  const v1::WorkerPlan& self = plan.worker(static_cast<int>(worker));
  if (self.shares().begin() > self.shares().end() || self.shares().end() > plan.shares()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan.worker[", worker, "].shares: found [", self.shares().begin(), ",",
                     self.shares().end(), "), expected a part of [0,", plan.shares(), ")"));
  }
  FlowMap map(worker, LaneDeal(plan, worker, lanes));
  if (self.shares().begin() == self.shares().end()) return map;
  for (const Boundary& boundary : BoundariesOf(plan)) {
    const uint32_t from_rank = boundary.from_stage % plan.ranks();
    const uint32_t to_rank = boundary.to_stage % plan.ranks();
    if (from_rank != self.rank() && to_rank != self.rank()) continue;
    FlowEdge edge;
    edge.boundary = boundary;
    edge.from_worker = worker;
    edge.to_worker = worker;
    if (from_rank != self.rank()) {
      ASSIGN_OR_RETURN(edge.from_worker, PeerOf(plan, worker, from_rank));
    }
    if (to_rank != self.rank()) {
      ASSIGN_OR_RETURN(edge.to_worker, PeerOf(plan, worker, to_rank));
    }
    map.edges_.push_back(edge);
  }
  return map;
}

absl::StatusOr<FlowEdge> FlowMap::EdgeOf(uint32_t boundary) const {
  const auto found =
      std::lower_bound(edges_.begin(), edges_.end(), boundary,
                       [](const FlowEdge& edge, uint32_t id) { return edge.boundary.id < id; });
  if (found == edges_.end() || found->boundary.id != boundary) {
    return absl::InvalidArgumentError(
        absl::StrCat("boundary: found ", boundary, ", expected one of worker ", worker_));
  }
  return *found;
}

absl::StatusOr<FlowRoute> FlowMap::RouteOf(const FlowTag& tag) const {
  if (!tag.evaluation) {
    ASSIGN_OR_RETURN(const uint32_t lane, deal_.LaneOfMicroBatch(tag.micro_batch));
    return FlowRoute{lane, tag.boundary, tag.direction};
  }
  if (tag.direction == FlowDirection::kBackward) {
    return absl::InvalidArgumentError("found a gradient of an evaluation, expected activations");
  }
  ASSIGN_OR_RETURN(const uint32_t lane, deal_.LaneOfChunk(tag.micro_batch));
  return FlowRoute{lane, tag.boundary, tag.direction};
}

std::vector<uint32_t> FlowMap::PeersBehind() const {
  std::set<uint32_t> peers;
  for (const FlowEdge& edge : edges_) {
    if (edge.to_worker != worker_) peers.insert(edge.to_worker);
  }
  return {peers.begin(), peers.end()};
}

std::vector<uint32_t> FlowMap::PeersInFront() const {
  std::set<uint32_t> peers;
  for (const FlowEdge& edge : edges_) {
    if (edge.from_worker != worker_) peers.insert(edge.from_worker);
  }
  return {peers.begin(), peers.end()};
}

}  // namespace sangam
