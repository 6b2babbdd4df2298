#ifndef SANGAM_TESTS_TESTING_REFERENCE_IMAGES_H_
#define SANGAM_TESTS_TESTING_REFERENCE_IMAGES_H_

#include <cstddef>

#include "tests/testing/reference_ops.h"

namespace sangam::testing {

// What layers over images compute, as plain loops in double precision. Images are [images, height,
// width, channels].
struct ReferenceWindow {
  size_t height, width, channels;
  size_t kernel_height, kernel_width, stride, padding;
  size_t out_channels;  // channels, for pooling

  size_t in_elements() const { return height * width * channels; }
  size_t out_height() const { return (height + 2 * padding - kernel_height) / stride + 1; }
  size_t out_width() const { return (width + 2 * padding - kernel_width) / stride + 1; }
  size_t out_elements() const { return out_height() * out_width() * out_channels; }
  size_t weight_elements() const { return out_channels * kernel_height * kernel_width * channels; }
};

// Cross-correlation. weight: [out_channels, kernel_height, kernel_width, channels]; bias:
// [out_channels], or empty for none.
Values Conv2d(const ReferenceWindow& window, const Values& x, const Values& weight,
              const Values& bias);

struct Conv2dGradients {
  Values x, weight, bias;
};
Conv2dGradients Conv2dBackward(const ReferenceWindow& window, const Values& x,
                               const Values& weight, const Values& dy);

Values MaxPool2d(const ReferenceWindow& window, const Values& x);
Values MaxPool2dBackward(const ReferenceWindow& window, const Values& x, const Values& dy);

// Outside of the image is 0 and counts.
Values AveragePool2d(const ReferenceWindow& window, const Values& x);
Values AveragePool2dBackward(const ReferenceWindow& window, const Values& x, const Values& dy);

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_REFERENCE_IMAGES_H_
