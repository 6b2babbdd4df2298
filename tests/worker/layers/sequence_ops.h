#ifndef SANGAM_TESTS_WORKER_LAYERS_SEQUENCE_OPS_H_
#define SANGAM_TESTS_WORKER_LAYERS_SEQUENCE_OPS_H_

#include <cstddef>

#include "tests/testing/reference_ops.h"

namespace sangam::testing {

// What sequence layers compute, as plain loops in double precision.

// gain * x / sqrt(mean(x^2) + epsilon) of each row of as many elements as `gain` has.
Values RmsNorm(const Values& x, const Values& gain, double epsilon);

// Rows of queries, keys and values side by side, 3 * width elements: row r is position r %
// positions of sequence r / positions.
struct HeadShape {
  size_t positions, width, heads;
};

// Queries and keys turned by the angles of their positions.
Values RotateHeads(const HeadShape& shape, double base, Values qkv);

// Causal attention: [rows, width].
Values HeadsAttention(const HeadShape& shape, const Values& qkv);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_LAYERS_SEQUENCE_OPS_H_
