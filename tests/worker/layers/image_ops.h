#ifndef SANGAM_TESTS_WORKER_LAYERS_IMAGE_OPS_H_
#define SANGAM_TESTS_WORKER_LAYERS_IMAGE_OPS_H_

#include <cstddef>
#include <vector>

#include "tests/testing/reference_ops.h"

namespace sangam::testing {

// What layers of images and norms compute, as plain loops in double precision. Images are [height,
// width, channels]; `out` takes the shape of the result and may be the shape given.
using Dimensions = std::vector<size_t>;

struct Window {
  size_t kernel_height, kernel_width, stride, padding;
};

// weight: [out_channels, kernel_height, kernel_width, channels]; bias: empty for none.
Values Conv2d(Dimensions in, const Window& window, const Values& x, const Values& weight,
              const Values& bias, size_t out_channels, Dimensions* out);
Values MaxPool2d(Dimensions in, const Window& window, const Values& x, Dimensions* out);
Values AveragePool2d(Dimensions in, const Window& window, const Values& x, Dimensions* out);

// Of each column of a matrix with `width` columns; the variance is the biased one.
struct Moments {
  Values mean, variance;
};
Moments ColumnMoments(size_t width, const Values& x);

// gain * (x - mean) / sqrt(variance + epsilon) + bias, column by column.
Values NormalizeColumns(const Values& x, const Moments& moments, double epsilon, const Values& gain,
                        const Values& bias);

// The same with each row's own mean and variance.
Values LayerNorm(const Values& x, const Values& gain, const Values& bias, double epsilon);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_LAYERS_IMAGE_OPS_H_
