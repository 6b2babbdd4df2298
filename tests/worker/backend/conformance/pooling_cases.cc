#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_images.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "tests/worker/backend/conformance/window_cases.h"
#include "worker/backend/backend.h"

namespace sangam::testing {
namespace {

struct Pooled {
  std::vector<float> y, dx;
};

Pooled MaxPool(Backend* backend, const WindowCase& c, const std::vector<float>& x,
               const std::vector<float>& dy) {
  const DeviceMatrix in(backend, c.images, c.shape.in.elements(), x);
  const DeviceMatrix out(backend, c.images, c.shape.out().elements());
  EXPECT_TRUE(backend->MaxPool2d(c.shape, in.view(), out.view()).ok());
  const DeviceMatrix dy_device(backend, c.images, c.shape.out().elements(), dy);
  const DeviceMatrix dx(backend, c.images, c.shape.in.elements());
  const absl::Status status = backend->MaxPool2dBackward(c.shape, in.view(), out.view(),
                                                         dy_device.view(), dx.view());
  EXPECT_TRUE(status.ok()) << status;
  return {out.Read(), dx.Read()};
}

// The largest elements are exact; a pixel's gradient is a sum over the windows that cover it.
void MaxPoolIsAsTheReference(Backend* backend, const WindowCase& c) {
  std::vector<float> x = RandomFloats(c.in_elements(), 1);
  // Some equal elements.
  for (size_t i = 0; i + 1 < x.size(); i += 3) x[i] = std::round(x[i] * 4) / 4;
  const std::vector<float> dy = RandomFloats(c.out_elements(), 2);
  const Pooled pooled = MaxPool(backend, c, x, dy);
  EXPECT_EQ(ToDouble(pooled.y), MaxPool2d(c.reference(), ToDouble(x)));
  const Values expected = MaxPool2dBackward(c.reference(), ToDouble(x), ToDouble(dy));
  const auto windows =
      static_cast<double>(c.shape.window.kernel_height * c.shape.window.kernel_width);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(pooled.dx[i], expected[i], windows * windows * 0x1p-24) << i;
  }
}

void AveragePoolIsAsTheReference(Backend* backend, const WindowCase& c) {
  const std::vector<float> x = RandomFloats(c.in_elements(), 1);
  const std::vector<float> dy = RandomFloats(c.out_elements(), 2);
  const DeviceMatrix in(backend, c.images, c.shape.in.elements(), x);
  const DeviceMatrix out(backend, c.images, c.shape.out().elements());
  absl::Status status = backend->AveragePool2d(c.shape, in.view(), out.view());
  ASSERT_TRUE(status.ok()) << status;
  const DeviceMatrix dy_device(backend, c.images, c.shape.out().elements(), dy);
  const DeviceMatrix dx_device(backend, c.images, c.shape.in.elements());
  status = backend->AveragePool2dBackward(c.shape, dy_device.view(), dx_device.view());
  ASSERT_TRUE(status.ok()) << status;
  const auto windows =
      static_cast<double>(c.shape.window.kernel_height * c.shape.window.kernel_width);
  const Values y = AveragePool2d(c.reference(), ToDouble(x));
  const std::vector<float> found = out.Read();
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(found[i], y[i], (windows + 2) * 0x1p-24) << i;
  }
  const Values dx = AveragePool2dBackward(c.reference(), ToDouble(x), ToDouble(dy));
  const std::vector<float> gradient = dx_device.Read();
  for (size_t i = 0; i < dx.size(); ++i) {
    ASSERT_NEAR(gradient[i], dx[i], (windows + 2) * 0x1p-24) << i;
  }
}

constexpr WindowShape kTwoByTwo = {{2, 2, 1}, {2, 2, 1, 0}, 1};

void TheFirstOfEqualsTakesTheGradient(Backend* backend) {
  const Pooled pooled = MaxPool(backend, {2, kTwoByTwo}, {1, 3, 3, 3, 0, -0.0f, 0, -1}, {5, 7});
  EXPECT_EQ(pooled.dx, (std::vector<float>{0, 5, 0, 0, 7, 0, 0, 0}));
}

void NaNIsNotHidden(Backend* backend) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& x : {std::vector<float>{nan, 1, 2, 3}, {1, 9, nan, 3}}) {
    const Pooled pooled = MaxPool(backend, {1, kTwoByTwo}, x, {5});
    EXPECT_TRUE(std::isnan(pooled.y[0]));
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(pooled.dx[i], std::isnan(x[i]) ? 5 : 0) << i;
  }
  const Pooled pooled = MaxPool(backend, {1, kTwoByTwo}, {4, 1, 2, 3}, {nan});
  EXPECT_TRUE(std::isnan(pooled.dx[0]));
}

void TheLowestOfAllIsANumberToo(Backend* backend) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const Pooled pooled = MaxPool(backend, {1, kTwoByTwo}, {lowest, lowest, lowest, lowest}, {5});
  EXPECT_EQ(pooled.y, std::vector<float>{lowest});
  EXPECT_EQ(pooled.dx, (std::vector<float>{5, 0, 0, 0}));
}

}  // namespace

std::vector<OpCase> PoolingCases() {
  std::vector<OpCase> cases = {
      {"MaxPoolTheFirstOfEqualsTakesTheGradient", TheFirstOfEqualsTakesTheGradient},
      {"MaxPoolNaNIsNotHidden", NaNIsNotHidden},
      {"MaxPoolTheLowestOfAllIsANumberToo", TheLowestOfAllIsANumberToo},
  };
  for (WindowCase c : WindowCases()) {
    c.shape.out_channels = c.shape.in.channels;
    cases.push_back({absl::StrCat("MaxPool_", c.name()),
                     [c](Backend* backend) { MaxPoolIsAsTheReference(backend, c); }});
    cases.push_back({absl::StrCat("AveragePool_", c.name()),
                     [c](Backend* backend) { AveragePoolIsAsTheReference(backend, c); }});
  }
  return cases;
}

}  // namespace sangam::testing
