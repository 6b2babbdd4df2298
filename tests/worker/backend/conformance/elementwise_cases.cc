#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_norms.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"

namespace sangam::testing {
namespace {

constexpr double kEpsilon = 0x1p-24;

// Column sums: any order errs by at most (rows + 1) epsilon times the sum of sizes.
void SumsRows(Backend* backend, int64_t rows, int64_t cols) {
  const std::vector<float> in = RandomFloats(rows * cols, 1);
  const std::vector<float> before = RandomFloats(cols, 2);
  for (const bool accumulate : {false, true}) {
    const DeviceMatrix in_device(backend, rows, cols, in);
    const DeviceMatrix out_device(backend, 1, cols, before);
    const absl::Status status = backend->SumRows(in_device.view(), accumulate, out_device.view());
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<float> out = out_device.Read();
    for (int64_t j = 0; j < cols; ++j) {
      double sum = accumulate ? before[static_cast<size_t>(j)] : 0.0;
      double size = std::abs(sum);
      for (int64_t i = 0; i < rows; ++i) {
        sum += in[static_cast<size_t>(i * cols + j)];
        size += std::abs(in[static_cast<size_t>(i * cols + j)]);
      }
      ASSERT_NEAR(out[static_cast<size_t>(j)], sum,
                  static_cast<double>(rows + 1) * kEpsilon * size);
    }
  }
}

struct ActivationCase {
  Activation activation;
  std::string name;
  Values (*forward)(const Values&);
  bool keeps_input;
};

std::vector<ActivationCase> Activations() {
  return {{Activation::kRelu, "Relu", &Relu, false},
          {Activation::kGelu, "Gelu", &Gelu, true},
          {Activation::kTanh, "Tanh", &Tanh, false},
          {Activation::kSigmoid, "Sigmoid", &Sigmoid, false}};
}

// Values of `activation` within 1e-6 relative and 1e-7 absolute, where its argument is and where
// the function is flat or steep.
void ActivatesAsTheReference(Backend* backend, const ActivationCase& c, int64_t rows,
                             int64_t cols) {
  std::vector<float> x = RandomFloats(rows * cols, 1, -12, 12);
  for (size_t i = 0; i < x.size(); i += 3) x[i] *= 0.1f;  // more near 0
  const DeviceMatrix in(backend, rows, cols, x);
  const DeviceMatrix out(backend, rows, cols);
  const absl::Status status = backend->Activate(c.activation, in.view(), out.view());
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<float> y = out.Read();
  const Values expected = c.forward(ToDouble(x));
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(y[i], expected[i], 1e-7 + 1e-6 * std::abs(expected[i])) << "at " << x[i];
  }
  // In place, the same bits.
  ASSERT_TRUE(backend->Activate(c.activation, in.view(), in.view()).ok());
  EXPECT_EQ(in.Read(), y);
}

// The gradient within 1e-6 of the numerical derivative of the reference, relative to dy. (Central
// differences in double err by some 1e-10.)
void GradientIsTheDerivative(Backend* backend, const ActivationCase& c, int64_t rows,
                             int64_t cols) {
  const std::vector<float> x = RandomFloats(rows * cols, 1, -4, 4);
  const std::vector<float> dy = RandomFloats(rows * cols, 2);
  const DeviceMatrix in(backend, rows, cols, x);
  const DeviceMatrix out(backend, rows, cols);
  ASSERT_TRUE(backend->Activate(c.activation, in.view(), out.view()).ok());
  const Matrix kept = c.keeps_input ? in.view() : out.view();
  const DeviceMatrix dy_device(backend, rows, cols, dy);
  const DeviceMatrix dx_device(backend, rows, cols);
  const absl::Status status =
      backend->ActivateBackward(c.activation, kept, dy_device.view(), dx_device.view());
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<float> dx = dx_device.Read();
  for (size_t i = 0; i < x.size(); ++i) {
    const double derivative =
        NumericalGradient([&](const Values& at) { return c.forward(at)[0]; }, {double{x[i]}})[0];
    ASSERT_NEAR(dx[i], dy[i] * derivative, 1e-6 * std::abs(dy[i]) + 1e-9) << "at " << x[i];
  }
  // Over either of its inputs, the same bits.
  ASSERT_TRUE(
      backend->ActivateBackward(c.activation, kept, dy_device.view(), dy_device.view()).ok());
  EXPECT_EQ(dy_device.Read(), dx);
  const DeviceMatrix dy_again(backend, rows, cols, dy);
  ASSERT_TRUE(backend->ActivateBackward(c.activation, kept, dy_again.view(), kept).ok());
  EXPECT_EQ((c.keeps_input ? in : out).Read(), dx);
}

void NaNIsNotHidden(Backend* backend, const ActivationCase& c) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const DeviceMatrix x(backend, 1, 20, std::vector<float>(20, nan));
  ASSERT_TRUE(backend->Activate(c.activation, x.view(), x.view()).ok());
  for (const float y : x.Read()) EXPECT_TRUE(std::isnan(y));
  const DeviceMatrix kept(backend, 1, 2, {0.5f, nan});
  const DeviceMatrix dy(backend, 1, 2, {nan, nan});
  ASSERT_TRUE(backend->ActivateBackward(c.activation, kept.view(), dy.view(), dy.view()).ok());
  for (const float dx : dy.Read()) EXPECT_TRUE(std::isnan(dx));
}

void ReluAtZero(Backend* backend) {
  const DeviceMatrix x(backend, 1, 3, {-1.0f, 0.0f, 2.0f});
  const DeviceMatrix dx(backend, 1, 3, {5.0f, 5.0f, 5.0f});
  ASSERT_TRUE(backend->Activate(Activation::kRelu, x.view(), x.view()).ok());
  EXPECT_EQ(x.Read(), (std::vector<float>{0.0f, 0.0f, 2.0f}));
  ASSERT_TRUE(backend->ActivateBackward(Activation::kRelu, x.view(), dx.view(), dx.view()).ok());
  EXPECT_EQ(dx.Read(), (std::vector<float>{0.0f, 0.0f, 5.0f}));
}

const std::vector<std::vector<int64_t>>& Shapes() {
  static const auto* const shapes = new std::vector<std::vector<int64_t>>{
      {0, 5}, {5, 0}, {1, 1}, {1, 10}, {3, 7}, {4, 16}, {5, 33}, {13, 129}, {64, 100}};
  return *shapes;
}

}  // namespace

std::vector<OpCase> SumRowsCases() {
  std::vector<OpCase> cases;
  std::vector<std::vector<int64_t>> shapes = Shapes();
  // More rows than one block adds, and than a grid has blocks in its second direction.
  shapes.insert(shapes.end(), {{4100, 70}, {70001, 3}});
  for (const auto& shape : shapes) {
    cases.push_back({absl::StrCat("SumRows_", shape[0], "x", shape[1]),
                     [shape](Backend* backend) { SumsRows(backend, shape[0], shape[1]); }});
  }
  return cases;
}

std::vector<OpCase> ActivationCases() {
  std::vector<OpCase> cases = {{"ReluAtZero", ReluAtZero}};
  for (const ActivationCase& c : Activations()) {
    cases.push_back({absl::StrCat(c.name, "_NaNIsNotHidden"),
                     [c](Backend* backend) { NaNIsNotHidden(backend, c); }});
    for (const auto& shape : Shapes()) {
      const std::string suffix = absl::StrCat("_", shape[0], "x", shape[1]);
      cases.push_back({absl::StrCat(c.name, suffix), [c, shape](Backend* backend) {
                         ActivatesAsTheReference(backend, c, shape[0], shape[1]);
                       }});
      cases.push_back({absl::StrCat(c.name, "_Gradient", suffix), [c, shape](Backend* backend) {
                         GradientIsTheDerivative(backend, c, shape[0], shape[1]);
                       }});
    }
  }
  return cases;
}

}  // namespace sangam::testing
