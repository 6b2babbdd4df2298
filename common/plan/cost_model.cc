#include "common/plan/cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/plan/pipeline_layout.h"
#include "common/plan/schedule_check.h"
#include "common/plan/span.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

double OrDefault(double found, double fallback) {
  return std::isfinite(found) && found > 0 ? found : fallback;
}

bool Recomputes(const v1::ModelSpec& model, int block) {
  return block < model.block_size() && model.block(block).recompute();
}

bool HasParameters(const v1::BlockLayout& block) {
  return block.segment() >= 0 || block.has_tied_segment();
}

PassCost Modelled(const v1::ModelLayout& layout, const v1::ModelSpec& model, int b, int first) {
  const v1::BlockLayout& block = layout.block(b);
  const auto flops = static_cast<double>(block.forward_flops());
  PassCost cost{flops, b > first ? flops : 0, HasParameters(block) ? flops : 0};
  if (Recomputes(model, b) && b >= first) cost = {flops, flops + cost.backward(), 0};
  return cost;
}

PassCost Measured(const v1::ModelLayout& layout, const v1::ModelSpec& model, int b, int first,
                  const v1::BlockTime& time) {
  const auto samples = static_cast<double>(time.samples());
  const double backward = time.backward_seconds() / samples;
  PassCost cost;
  cost.forward = time.forward_seconds() / samples;
  const bool weights = HasParameters(layout.block(b)) && !Recomputes(model, b);
  if (weights) cost.backward_weights = b > first ? backward / 2 : backward;
  cost.backward_input = backward - cost.backward_weights;
  return cost;
}

// The measurement of each block; empty unless every block has a sound one.
std::vector<v1::BlockTime> ByBlock(const std::vector<v1::BlockTime>& measured, size_t blocks) {
  std::vector<v1::BlockTime> by_block(blocks);
  for (const v1::BlockTime& time : measured) {
    const bool sound = std::isfinite(time.forward_seconds()) && time.forward_seconds() >= 0 &&
                       std::isfinite(time.backward_seconds()) && time.backward_seconds() >= 0;
    if (sound && time.block() < blocks) by_block[time.block()] = time;
  }
  const bool complete = std::all_of(by_block.begin(), by_block.end(),
                                    [](const v1::BlockTime& time) { return time.samples() > 0; });
  return complete ? by_block : std::vector<v1::BlockTime>();
}

// Bytes of one sample that cross a boundary.
uint64_t Bytes(const Boundary& boundary) { return boundary.columns * sizeof(float); }

}  // namespace

uint32_t FirstTrainedBlock(const v1::ModelLayout& layout) {
  int first = 0;
  while (first < layout.block_size() && !HasParameters(layout.block(first))) ++first;
  return static_cast<uint32_t>(first);
}

CostModel::CostModel(const v1::ModelLayout& layout, const v1::ModelSpec& model,
                     const v1::ClusterFacts& cluster, const std::vector<v1::BlockTime>& measured)
    : link_bytes_per_second_(
          OrDefault(cluster.link_bytes_per_second(), kDefaultLinkBytesPerSecond)) {
  const std::vector<v1::BlockTime> times =
      ByBlock(measured, static_cast<size_t>(layout.block_size()));
  measured_ = !times.empty();
  const auto first = static_cast<int>(FirstTrainedBlock(layout));
  before_.emplace_back();
  for (int b = 0; b < layout.block_size(); ++b) {
    const PassCost cost = measured_
                              ? Measured(layout, model, b, first, times[static_cast<size_t>(b)])
                              : Modelled(layout, model, b, first);
    const PassCost& sum = before_.back();
    before_.push_back({sum.forward + cost.forward, sum.backward_input + cost.backward_input,
                       sum.backward_weights + cost.backward_weights});
  }
  double mean = 0;
  for (const v1::WorkerFacts& worker : cluster.worker()) {
    const double speed = OrDefault(worker.flops_per_second(), kDefaultFlopsPerSecond);
    seconds_per_unit_.push_back(1 / speed);
    mean += speed / cluster.worker_size();
  }
  if (!measured_) return;
  for (double& seconds : seconds_per_unit_) seconds *= mean;
}

PassCost CostModel::Cost(uint32_t first, uint32_t count) const {
  const PassCost& low = before_[first];
  const PassCost& high = before_[first + count];
  return {high.forward - low.forward, high.backward_input - low.backward_input,
          high.backward_weights - low.backward_weights};
}

double CostModel::TransferSeconds(uint64_t bytes) const {
  return bytes == 0 ? 0 : kMessageSeconds + static_cast<double>(bytes) / link_bytes_per_second_;
}

double CostModel::EntrySeconds(const v1::ModelLayout& layout, uint32_t first, uint64_t rows,
                               uint32_t lanes) const {
  uint64_t bytes = sizeof(float) * rows * lanes;
  for (const uint64_t dimension : layout.block(static_cast<int>(first)).input_shape()) {
    bytes *= dimension;
  }
  return 2 * TransferSeconds(bytes);
}

StepTraffic TrafficOf(const v1::Plan& plan, const v1::JobSpec& spec,
                      const v1::ClusterFacts& cluster, const CostModel& costs) {
  StepTraffic traffic;
  uint64_t busiest = 0;
  for (uint32_t w = 0; w < static_cast<uint32_t>(plan.worker_size()); ++w) {
    const v1::Span& shares = plan.worker(static_cast<int>(w)).shares();
    const uint64_t spans = MaximalSpans({shares.begin(), shares.end()}, plan.shares()).size();
    uint64_t elements = 0;
    for (const ParameterUse& use : UsesOf(plan, w)) {
      elements += spans * plan.layout().segment(static_cast<int>(use.segment)).element_count();
    }
    for (const uint32_t segment : SegmentsOf(plan, w)) {
      elements += plan.layout().segment(static_cast<int>(segment)).element_count();
    }
    busiest = std::max(busiest, elements * sizeof(float));
    traffic.parameter_bytes += elements * sizeof(float);
  }
  const uint64_t servers = std::max<uint32_t>(1, cluster.servers());
  busiest = std::max(busiest, (traffic.parameter_bytes + servers - 1) / servers);
  traffic.parameter_seconds = costs.TransferSeconds(busiest);
  for (const Boundary& boundary : BoundariesOf(plan)) {
    const bool local = boundary.from_stage % plan.ranks() == boundary.to_stage % plan.ranks();
    if (!local) traffic.activation_bytes += 2 * Bytes(boundary) * spec.batch().size();
  }
  return traffic;
}

std::vector<StageTimes> TimesOf(const v1::Plan& plan, const CostModel& costs, uint64_t rows,
                                uint32_t lanes) {
  std::vector<double> seconds_per_unit(plan.ranks(), 0);  // of each rank's slowest worker
  for (int w = 0; w < plan.worker_size(); ++w) {
    const v1::WorkerPlan& worker = plan.worker(w);
    if (worker.shares().begin() == worker.shares().end()) continue;
    double& slowest = seconds_per_unit[worker.rank()];
    slowest = std::max(slowest, costs.SecondsPerUnit(static_cast<uint32_t>(w)));
  }
  std::vector<StageTimes> times(static_cast<size_t>(plan.stage_size()));
  for (size_t s = 0; s < times.size(); ++s) {
    const v1::StagePlan& stage = plan.stage(static_cast<int>(s));
    const PassCost cost = costs.Cost(stage.first_block(), stage.block_count());
    const double scale = seconds_per_unit[s % plan.ranks()] * static_cast<double>(rows);
    times[s].forward = scale * cost.forward;
    times[s].backward_input = scale * cost.backward_input;
    times[s].backward_weights = scale * cost.backward_weights;
  }
  std::vector<uint64_t> forward(times.size(), 0);  // bytes of one sample
  std::vector<uint64_t> backward(times.size(), 0);
  for (const Boundary& boundary : BoundariesOf(plan)) {
    if (boundary.from_stage % plan.ranks() == boundary.to_stage % plan.ranks()) continue;
    forward[boundary.from_stage] += Bytes(boundary);
    backward[boundary.to_stage] += Bytes(boundary);
  }
  for (size_t s = 0; s < times.size(); ++s) {
    times[s].forward_transfer = costs.TransferSeconds(forward[s] * rows * lanes);
    times[s].backward_transfer = costs.TransferSeconds(backward[s] * rows * lanes);
  }
  return times;
}

}  // namespace sangam
