#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_images.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "tests/worker/backend/conformance/window_cases.h"
#include "worker/backend/backend.h"

namespace sangam::testing {
namespace {

Values Sizes(const std::vector<float>& values) {
  Values sizes;
  for (const float value : values) sizes.push_back(std::abs(value));
  return sizes;
}

// Any order of a sum of `terms` products errs by at most so much, relative to the sum of sizes.
double Tolerance(int64_t terms) { return static_cast<double>(terms + 3) * 0x1p-24; }

struct Example {
  explicit Example(const WindowCase& c)
      : rows(c.images),
        taps(c.shape.window.kernel_height * c.shape.window.kernel_width),
        weight_cols(taps * c.shape.in.channels),
        x(RandomFloats(c.in_elements(), 1)),
        weight(RandomFloats(c.shape.out_channels * weight_cols, 2)),
        bias(RandomFloats(c.shape.out_channels, 3)),
        dy(RandomFloats(c.out_elements(), 4)),
        before(RandomFloats(static_cast<int64_t>(weight.size()), 5)) {}

  int64_t rows, taps, weight_cols;
  std::vector<float> x, weight, bias, dy, before;
};

std::vector<float> Forward(Backend* backend, const WindowCase& c, const Example& e,
                           Epilogue epilogue, int64_t offset = 0) {
  const DeviceMatrix in(backend, e.rows, c.shape.in.elements(), e.x, offset);
  const DeviceMatrix weight(backend, c.shape.out_channels, e.weight_cols, e.weight, 2 * offset);
  const DeviceMatrix bias(backend, 1, c.shape.out_channels, e.bias, offset);
  const DeviceMatrix out(backend, e.rows, c.shape.out().elements(), 3 * offset);
  const absl::Status status =
      backend->Conv2d(c.shape, in.view(), weight.view(), epilogue,
                      epilogue == Epilogue::kNone ? ConstMatrix() : bias.view(), out.view());
  EXPECT_TRUE(status.ok()) << status;
  return out.Read();
}

std::vector<float> BackwardInput(Backend* backend, const WindowCase& c, const Example& e,
                                 int64_t offset = 0) {
  const DeviceMatrix dy(backend, e.rows, c.shape.out().elements(), e.dy, offset);
  const DeviceMatrix weight(backend, c.shape.out_channels, e.weight_cols, e.weight, 2 * offset);
  const DeviceMatrix dx(backend, e.rows, c.shape.in.elements(), 3 * offset);
  const absl::Status status =
      backend->Conv2dBackwardInput(c.shape, weight.view(), dy.view(), dx.view());
  EXPECT_TRUE(status.ok()) << status;
  return dx.Read();
}

std::vector<float> BackwardWeight(Backend* backend, const WindowCase& c, const Example& e,
                                  bool accumulate, int64_t offset = 0) {
  const DeviceMatrix in(backend, e.rows, c.shape.in.elements(), e.x, offset);
  const DeviceMatrix dy(backend, e.rows, c.shape.out().elements(), e.dy, 2 * offset);
  const DeviceMatrix dw(backend, c.shape.out_channels, e.weight_cols, e.before, 3 * offset);
  const absl::Status status =
      backend->Conv2dBackwardWeight(c.shape, in.view(), dy.view(), accumulate, dw.view());
  EXPECT_TRUE(status.ok()) << status;
  return dw.Read();
}

void IsAsTheReference(Backend* backend, const WindowCase& c) {
  const Example e(c);
  const ReferenceWindow window = c.reference();
  const Values bias = ToDouble(e.bias);
  for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kBias, Epilogue::kBiasRelu}) {
    const bool biased = epilogue != Epilogue::kNone;
    const Values expected =
        Conv2d(window, ToDouble(e.x), ToDouble(e.weight), biased ? bias : Values());
    const Values size = Conv2d(window, Sizes(e.x), Sizes(e.weight), Sizes(e.bias));
    const std::vector<float> y = Forward(backend, c, e, epilogue);
    ASSERT_EQ(y.size(), expected.size());
    for (size_t i = 0; i < y.size(); ++i) {
      const double value =
          epilogue == Epilogue::kBiasRelu && expected[i] < 0 ? 0.0 : expected[i];
      ASSERT_NEAR(y[i], value, Tolerance(e.weight_cols) * size[i]) << i;
    }
  }
}

void GradientsAreAsTheReference(Backend* backend, const WindowCase& c) {
  const Example e(c);
  const ReferenceWindow window = c.reference();
  const Conv2dGradients expected =
      Conv2dBackward(window, ToDouble(e.x), ToDouble(e.weight), ToDouble(e.dy));
  const Conv2dGradients size = Conv2dBackward(window, Sizes(e.x), Sizes(e.weight), Sizes(e.dy));
  const std::vector<float> dx = BackwardInput(backend, c, e);
  for (size_t i = 0; i < dx.size(); ++i) {
    ASSERT_NEAR(dx[i], expected.x[i], Tolerance(e.taps * c.shape.out_channels) * size.x[i]) << i;
  }
  const int64_t terms = e.rows * c.shape.out().pixels();
  for (const bool accumulate : {false, true}) {
    const std::vector<float> dw = BackwardWeight(backend, c, e, accumulate);
    for (size_t i = 0; i < dw.size(); ++i) {
      const double added = accumulate ? e.before[i] : 0.0;
      ASSERT_NEAR(dw[i], expected.weight[i] + added,
                  Tolerance(terms) * (size.weight[i] + std::abs(added)))
          << i;
    }
  }
}

// Equal operands give equal bits, wherever they lie in memory.
void BitsDoNotDependOnTheAddress(Backend* backend, const WindowCase& c) {
  const Example e(c);
  const std::vector<float> y = Forward(backend, c, e, Epilogue::kBias);
  const std::vector<float> dx = BackwardInput(backend, c, e);
  const std::vector<float> dw = BackwardWeight(backend, c, e, true);
  for (const int64_t offset : {0, 1, 3}) {
    ASSERT_EQ(Forward(backend, c, e, Epilogue::kBias, offset), y) << "offset " << offset;
    ASSERT_EQ(BackwardInput(backend, c, e, offset), dx) << "offset " << offset;
    ASSERT_EQ(BackwardWeight(backend, c, e, true, offset), dw) << "offset " << offset;
  }
}

// What lies in other images, even if it is no number, changes nothing.
void ImagesAreApart(Backend* backend) {
  const WindowCase c = {3, {{6, 6, 4}, {3, 3, 1, 1}, 8}};
  Example e(c);
  const std::vector<float> y = Forward(backend, c, e, Epilogue::kNone);
  const std::vector<float> dx = BackwardInput(backend, c, e);
  const auto third = [](const std::vector<float>& values) {
    const auto part = static_cast<ptrdiff_t>(values.size() / 3);
    return std::vector<float>(values.begin() + part, values.begin() + 2 * part);
  };
  for (size_t i = 0; i < e.x.size(); ++i) {
    if (i / (e.x.size() / 3) != 1) e.x[i] = std::numeric_limits<float>::quiet_NaN();
  }
  for (size_t i = 0; i < e.dy.size(); ++i) {
    if (i / (e.dy.size() / 3) != 1) e.dy[i] = std::numeric_limits<float>::infinity();
  }
  EXPECT_EQ(third(Forward(backend, c, e, Epilogue::kNone)), third(y));
  EXPECT_EQ(third(BackwardInput(backend, c, e)), third(dx));
}

// Whatever was computed before with larger shapes leaves no trace.
void EarlierCallsLeaveNoTrace(Backend* backend) {
  const WindowCase small = {2, {{5, 5, 3}, {3, 3, 1, 1}, 4}};
  const Example e(small);
  const std::vector<float> y = Forward(backend, small, e, Epilogue::kNone);
  const std::vector<float> dx = BackwardInput(backend, small, e);
  const WindowCase large = {3, {{20, 20, 16}, {5, 5, 1, 2}, 16}};
  const Example other(large);
  Forward(backend, large, other, Epilogue::kBias);
  BackwardInput(backend, large, other);
  BackwardWeight(backend, large, other, false);
  EXPECT_EQ(Forward(backend, small, e, Epilogue::kNone), y);
  EXPECT_EQ(BackwardInput(backend, small, e), dx);
}

void NoImagesGiveNoGradient(Backend* backend) {
  const WindowCase c = {0, {{5, 5, 3}, {3, 3, 1, 1}, 4}};
  const Example e(c);
  EXPECT_THAT(BackwardWeight(backend, c, e, false), ::testing::Each(0.0f));
  EXPECT_EQ(BackwardWeight(backend, c, e, true), e.before);
}

// With a stride beyond the kernel some pixels are in no window.
void UnseenPixelsHaveNoGradient(Backend* backend) {
  const WindowCase c = {2, {{5, 5, 2}, {1, 1, 3, 0}, 3}};
  const Example e(c);
  const std::vector<float> dx = BackwardInput(backend, c, e);
  for (size_t i = 0; i < dx.size(); ++i) {
    const size_t row = i / 10 % 5;
    const size_t col = i / 2 % 5;
    EXPECT_EQ(dx[i] == 0, row % 3 != 0 || col % 3 != 0) << i;
  }
}

}  // namespace

std::vector<OpCase> Conv2dCases() {
  std::vector<OpCase> cases = {
      {"Conv2dImagesAreApart", ImagesAreApart},
      {"Conv2dEarlierCallsLeaveNoTrace", EarlierCallsLeaveNoTrace},
      {"Conv2dNoImagesGiveNoGradient", NoImagesGiveNoGradient},
      {"Conv2dUnseenPixelsHaveNoGradient", UnseenPixelsHaveNoGradient},
  };
  for (const WindowCase& c : WindowCases()) {
    cases.push_back({absl::StrCat("Conv2d_", c.name()),
                     [c](Backend* backend) { IsAsTheReference(backend, c); }});
    cases.push_back({absl::StrCat("Conv2dGradients_", c.name()),
                     [c](Backend* backend) { GradientsAreAsTheReference(backend, c); }});
    cases.push_back({absl::StrCat("Conv2dBitsDoNotDependOnTheAddress_", c.name()),
                     [c](Backend* backend) { BitsDoNotDependOnTheAddress(backend, c); }});
  }
  return cases;
}

}  // namespace sangam::testing
