#ifndef SANGAM_TESTS_TESTING_FLOW_TRAFFIC_H_
#define SANGAM_TESTS_TESTING_FLOW_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/plan.pb.h"
#include "worker/core/flow_tag.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam::testing {

// Element `index` of a tensor: differs from tensor to tensor.
float FlowElement(const FlowTag& tag, uint64_t index);

// Reserves, fills and sends a tensor.
absl::Status SendTensor(PipelineLink* link, uint32_t lane, const FlowTag& tag, FlowShape shape);

// Receives a tensor.
// Errors: Internal  an element is not the one that SendTensor wrote; others: the link's
absl::Status ReceiveTensor(PipelineLink* link, uint32_t lane, const FlowTag& tag, FlowShape shape);

// What a job would send: in every step each micro-batch goes through all stages and its gradient
// comes back; behind it chunks of an evaluation go forward.
struct FlowTraffic {
  uint64_t steps = 2;
  uint64_t max_rows = 1;  // micro-batch m has 1 + (m + step) % max_rows of them
  uint32_t chunks = 4;    // of each evaluation
};

// Runs every lane of every worker on a thread of its own. `links`: by worker of the plan. Returns
// the first error.
absl::Status RunTraffic(const FlowTraffic& traffic, const v1::Plan& plan,
                        const std::vector<PipelineLink*>& links);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_FLOW_TRAFFIC_H_
