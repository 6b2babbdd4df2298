#ifndef SANGAM_TESTS_TESTING_FLOW_PLAN_H_
#define SANGAM_TESTS_TESTING_FLOW_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/plan.pb.h"

namespace sangam::testing {

// A plan of pipelines and nothing else, for tests of what travels between workers: one block to a
// stage, no parameters.
struct FlowPlan {
  uint64_t job = 7;
  uint64_t generation = 2;
  uint32_t ranks = 2;
  uint32_t chunks = 1;
  uint32_t replicas = 1;
  // Elements of one sample between stage b and stage b + 1; the last value goes on.
  std::vector<uint64_t> columns = {10};
  // Skip connections, from block to block.
  std::vector<std::pair<uint32_t, uint32_t>> skips;
  uint32_t micro_batches = 8;
  uint32_t shares = 4;
  uint32_t credits = 2;
  uint32_t lanes = 1;
  // "host:port" of worker i, which is called "w-<i>"; "" where there are fewer.
  std::vector<std::string> addresses;
};

// Worker r + ranks * p is rank r of pipeline p and of incarnation 100 + its index.
v1::Plan MakePlan(const FlowPlan& flow);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_FLOW_PLAN_H_
