#ifndef SANGAM_TESTS_WORKER_LAYERS_BLOCK_REFERENCE_H_
#define SANGAM_TESTS_WORKER_LAYERS_BLOCK_REFERENCE_H_

#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/block_harness.h"
#include "worker/layers/pass_context.h"

namespace sangam::testing {

// The block under test by plain loops in double precision. weights, tied: as in the segments.
Values ReferenceForward(const TestModel& model, const PassContext& context, const Values& x,
                        const Values& weights, const Values& tied = {});

// What a pass in training must give as gradients of running statistics; 0 elsewhere.
Values ReferenceStatistics(const TestModel& model, const PassContext& context, const Values& x,
                           const Values& weights);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_LAYERS_BLOCK_REFERENCE_H_
