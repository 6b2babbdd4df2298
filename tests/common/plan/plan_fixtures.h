#ifndef SANGAM_TESTS_COMMON_PLAN_PLAN_FIXTURES_H_
#define SANGAM_TESTS_COMMON_PLAN_PLAN_FIXTURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

// Hand-made layouts, jobs and clusters for tests of the planner.
namespace sangam::testing {

// Of one sample.
struct BlockSizes {
  uint64_t columns = 1;     // of the output
  uint64_t parameters = 0;  // 0: none
  uint64_t flops = 0;
  uint64_t activation_bytes = 0;
  uint64_t scratch_bytes = 0;
};

// Blocks b0, b1, ... in a chain whose input has `input` elements.
v1::ModelLayout ChainLayout(uint64_t input, const std::vector<BlockSizes>& blocks);

// Block `block` also uses the parameters of segment 0, as a tied output head does.
void Tie(uint32_t block, v1::ModelLayout* layout);

// A job whose defaults are resolved; it evaluates.
v1::JobSpec JobOf(uint64_t batch, uint32_t micro_batches, uint32_t shares,
                  v1::Strategy strategy = v1::DATA_PARALLEL);

// Workers w-0, w-1, ..., each with one thread, 1e9 flops per second and no limit of memory; one
// server; links of 1e9 bytes per second.
v1::ClusterFacts ClusterOf(uint32_t workers);

// Workers as SpreadJob takes them.
std::vector<v1::WorkerPlan> WorkersOf(uint32_t workers);

// Stages of these numbers of blocks.
std::vector<v1::StagePlan> StagesOf(const std::vector<uint32_t>& counts);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_COMMON_PLAN_PLAN_FIXTURES_H_
