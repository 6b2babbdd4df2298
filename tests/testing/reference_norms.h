#ifndef SANGAM_TESTS_TESTING_REFERENCE_NORMS_H_
#define SANGAM_TESTS_TESTING_REFERENCE_NORMS_H_

#include <cstddef>

#include "tests/testing/reference_ops.h"

namespace sangam::testing {

// Norms over the batch and over a row, and losses of numbers, as plain loops in double precision.
// Matrices have `cols` columns.

struct Moments {
  Values mean, variance;  // biased
};
Moments ColumnMoments(size_t cols, const Values& x);

// With the given moments.
Values NormalizeColumns(size_t cols, const Values& x, const Moments& moments, double epsilon,
                        const Values& gain, const Values& bias);

struct NormGradients {
  Values x, gain, bias;
};
// With the moments of `x`, which depend on it.
NormGradients BatchNormBackward(size_t cols, const Values& x, double epsilon, const Values& gain,
                                const Values& dy);

Values LayerNorm(size_t cols, const Values& x, double epsilon, const Values& gain,
                 const Values& bias);
NormGradients LayerNormBackward(size_t cols, const Values& x, double epsilon, const Values& gain,
                                const Values& dy);

double SquaredError(const Values& x, const Values& targets);
double BinaryCrossEntropy(const Values& x, const Values& targets);

// 1 / (1 + exp(-x)). Backward takes x.
Values Sigmoid(const Values& x);
Values SigmoidBackward(const Values& x, const Values& dy);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_REFERENCE_NORMS_H_
