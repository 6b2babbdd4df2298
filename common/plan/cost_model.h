#ifndef SANGAM_COMMON_PLAN_COST_MODEL_H_
#define SANGAM_COMMON_PLAN_COST_MODEL_H_

#include <cstdint>
#include <vector>

#include "common/plan/schedule_check.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

// How long the parts of a step take. Estimates for choosing among plans, not promises: they rank
// plans of one job on one cluster.
namespace sangam {

// Taken when a worker or the cluster does not say.
inline constexpr double kDefaultFlopsPerSecond = 10e9;
inline constexpr double kDefaultLinkBytesPerSecond = 1e9;

// What a message costs however small it is: about what gRPC needs from one process to another.
inline constexpr double kMessageSeconds = 50e-6;

// The first block that has parameters: blocks in front of it have no backward, and it needs no
// gradient of its input. The number of blocks when none has.
uint32_t FirstTrainedBlock(const v1::ModelLayout& layout);

// Work of the passes for one sample, in units that CostModel::SecondsPerUnit turns into seconds on
// one thread of a worker.
struct PassCost {
  double forward = 0;
  double backward_input = 0;
  double backward_weights = 0;
  double backward() const { return backward_input + backward_weights; }
  double total() const { return forward + backward(); }
};

// Work of blocks on workers. A unit is a floating-point operation of the layout or, when every
// block has been measured, a second on a worker of the cluster's mean speed.
//
// Modelled: backward costs as much again as forward for the gradient of the input, which nobody
// needs up to the first block with parameters, and once more for that of the weights, where there
// are any. A block that recomputes does its forward once more and its whole backward in one pass.
// Measured: forward and backward as they were; backward falls in halves where it has two parts.
class CostModel {
 public:
  CostModel(const v1::ModelLayout& layout, const v1::ModelSpec& model,
            const v1::ClusterFacts& cluster, const std::vector<v1::BlockTime>& measured);

  bool measured() const { return measured_; }
  double link_bytes_per_second() const { return link_bytes_per_second_; }

  // Of the blocks [first, first + count).
  // REQUIRES: they are the layout's.
  PassCost Cost(uint32_t first, uint32_t count) const;
  // REQUIRES: worker < number of the cluster's workers.
  double SecondsPerUnit(uint32_t worker) const { return seconds_per_unit_[worker]; }
  // From the end of a pass until `bytes` that leave it have arrived.
  double TransferSeconds(uint64_t bytes) const;
  // What a stage that begins with block `first` > 0 moves for each micro-batch of `rows` samples:
  // its input and the gradient of it. Activations of `lanes` lanes share a link.
  double EntrySeconds(const v1::ModelLayout& layout, uint32_t first, uint64_t rows,
                      uint32_t lanes) const;

 private:
  bool measured_ = false;
  double link_bytes_per_second_ = kDefaultLinkBytesPerSecond;
  std::vector<PassCost> before_;  // value b: of the blocks [0, b)
  std::vector<double> seconds_per_unit_;
};

// What the links carry in one step of a plan.
struct StepTraffic {
  uint64_t parameter_bytes = 0;   // gradients pushed and weights pulled, all workers together
  uint64_t activation_bytes = 0;  // and their gradients, all pipelines together
  // How long the busiest worker or server needs for its part of parameter_bytes, one direction
  // after the other: the last gradients leave when nothing is left to compute, and the weights of
  // the first block come before anything can be. What overlaps in between is not counted on.
  double parameter_seconds = 0;
};

// REQUIRES: CheckStages(plan) is OK; the plan needs no servers.
StepTraffic TrafficOf(const v1::Plan& plan, const v1::JobSpec& spec,
                      const v1::ClusterFacts& cluster, const CostModel& costs);

// Times of the stages for a micro-batch of `rows` samples, each on the slowest of its workers.
// Activations of `lanes` lanes share a link.
// REQUIRES: CheckStages(plan) is OK; the plan's workers are the cluster's.
std::vector<StageTimes> TimesOf(const v1::Plan& plan, const CostModel& costs, uint64_t rows,
                                uint32_t lanes);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_COST_MODEL_H_
