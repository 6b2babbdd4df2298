#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_images.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/backend/conformance/window_cases.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/precision.h"

// Every backend of the program that links this, with factors in TF32. Tensor cores may cut what
// they do not take: results are as exact as the 10 bits after a factor's first one, and less exact
// than those of binary32.
namespace sangam::testing {
namespace {

// Of a product of two factors.
constexpr double kUnit = 2 * 0x1p-10;

Values Sizes(const std::vector<float>& values) {
  Values sizes;
  for (const float value : values) sizes.push_back(std::abs(double{value}));
  return sizes;
}

class Tf32ConformanceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const absl::Status status = CreateBackend(GetParam()).status();
    if (absl::IsFailedPrecondition(status)) GTEST_SKIP() << status;
  }

  static std::unique_ptr<Backend> New(Precision precision = Precision::kTf32) {
    auto backend = CreateBackend(GetParam(), precision);
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }
};

std::vector<float> Multiply(Backend* backend, const std::vector<int64_t>& size, int64_t offset) {
  const int64_t m = size[0];
  const int64_t n = size[1];
  const int64_t k = size[2];
  const DeviceMatrix a(backend, m, k, RandomFloats(m * k, 1), offset);
  const DeviceMatrix b(backend, k, n, RandomFloats(k * n, 2), 3 * offset);
  const DeviceMatrix c(backend, m, n, RandomFloats(m * n, 3), offset);
  const DeviceMatrix bias(backend, 1, n, RandomFloats(n, 4), offset);
  GemmArguments arguments;
  arguments.a = a.view();
  arguments.b = b.view();
  arguments.c = c.view();
  arguments.epilogue = Epilogue::kBias;
  arguments.bias = bias.view();
  const absl::Status status = backend->Gemm(arguments);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(a.Read(), RandomFloats(m * k, 1));
  return c.Read();
}

TEST_P(Tf32ConformanceTest, GemmIsAsExactAsItsFactors) {
  const auto backend = New();
  const auto exact = New(Precision::kFp32);
  for (const std::vector<int64_t>& size : std::vector<std::vector<int64_t>>{
           {1, 1, 1}, {3, 5, 7}, {33, 17, 65}, {32, 128, 100}, {4, 3, 0}}) {
    const auto m = static_cast<size_t>(size[0]);
    const auto n = static_cast<size_t>(size[1]);
    const auto k = static_cast<size_t>(size[2]);
    const std::vector<float> a = RandomFloats(size[0] * size[2], 1);
    const std::vector<float> b = RandomFloats(size[2] * size[1], 2);
    const std::vector<float> bias = RandomFloats(size[1], 4);
    const std::vector<float> found = Multiply(backend.get(), size, 0);
    for (size_t i = 0; i < m * n; ++i) {
      double sum = bias[i % n];
      double terms = 0;
      for (size_t q = 0; q < k; ++q) {
        const double term = double{a[i / n * k + q]} * double{b[q * n + i % n]};
        sum += term;
        terms += std::abs(term);
      }
      ASSERT_NEAR(found[i], sum, kUnit * terms + 0x1p-20) << i;
    }
    // Of shapes that tensor cores do not take, the factors may stay as they are.
    if (k > 5 && m % 4 == 0 && n % 4 == 0 && k % 4 == 0) {
      EXPECT_NE(found, Multiply(exact.get(), size, 0));
    }
    for (const int64_t offset : {1, 3}) ASSERT_EQ(Multiply(backend.get(), size, offset), found);
  }
}

TEST_P(Tf32ConformanceTest, ConvolutionsAreAsExactAsTheirFactors) {
  const auto backend = New();
  const WindowCase c = {2, {{8, 8, 5}, {3, 3, 1, 1}, 7}};
  const std::vector<float> x = RandomFloats(c.in_elements(), 1);
  const std::vector<float> weight = RandomFloats(7 * 45, 2);
  const std::vector<float> dy = RandomFloats(c.out_elements(), 3);
  const DeviceMatrix in(backend.get(), c.images, c.shape.in.elements(), x);
  const DeviceMatrix weights(backend.get(), 7, 45, weight);
  const DeviceMatrix gradient(backend.get(), c.images, c.shape.out().elements(), dy);
  const DeviceMatrix out(backend.get(), c.images, c.shape.out().elements());
  const DeviceMatrix dx(backend.get(), c.images, c.shape.in.elements());
  const DeviceMatrix dw(backend.get(), 7, 45);
  ASSERT_TRUE(
      backend->Conv2d(c.shape, in.view(), weights.view(), Epilogue::kNone, {}, out.view()).ok());
  ASSERT_TRUE(
      backend->Conv2dBackwardInput(c.shape, weights.view(), gradient.view(), dx.view()).ok());
  ASSERT_TRUE(
      backend->Conv2dBackwardWeight(c.shape, in.view(), gradient.view(), false, dw.view()).ok());
  const auto expect_near = [](const std::vector<float>& found, const Values& expected,
                              const Values& size) {
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], kUnit * size[i] + 0x1p-18) << i;
    }
  };
  const ReferenceWindow window = c.reference();
  expect_near(out.Read(), Conv2d(window, ToDouble(x), ToDouble(weight), {}),
              Conv2d(window, Sizes(x), Sizes(weight), {}));
  const Conv2dGradients expected =
      Conv2dBackward(window, ToDouble(x), ToDouble(weight), ToDouble(dy));
  const Conv2dGradients size = Conv2dBackward(window, Sizes(x), Sizes(weight), Sizes(dy));
  expect_near(dx.Read(), expected.x, size.x);
  expect_near(dw.Read(), expected.weight, size.weight);
}

TEST_P(Tf32ConformanceTest, AttentionIsAsExactAsItsFactors) {
  const SequenceShape shape = {2, 37, 3, 8};
  const std::vector<float> x = RandomFloats(2 * 37 * 72, 1, -2, 2);
  const std::vector<float> dy = RandomFloats(2 * 37 * 24, 2);
  const AttentionValues values = CausalAttention(shape, ToDouble(x));
  const Values expected = CausalAttentionBackward(shape, ToDouble(x), ToDouble(dy));
  const auto backend = New();
  const DeviceMatrix qkv(backend.get(), 74, 72, x);
  const DeviceMatrix d(backend.get(), 74, 24, dy);
  const DeviceMatrix out(backend.get(), 74, 24);
  const DeviceMatrix log_sum(backend.get(), 74, 3);
  const DeviceMatrix dx(backend.get(), 74, 72);
  ASSERT_TRUE(backend->CausalAttention({37, 3}, qkv.view(), out.view(), log_sum.view()).ok());
  ASSERT_TRUE(backend
                  ->CausalAttentionBackward({37, 3}, qkv.view(), out.view(), log_sum.view(),
                                            d.view(), dx.view())
                  .ok());
  const std::vector<float> y = out.Read();
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], values.y[i], 0x1p-7) << i;
  const std::vector<float> gradient = dx.Read();
  for (size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_NEAR(gradient[i], expected[i], 0x1p-5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Tf32ConformanceTest, ::testing::ValuesIn(BackendNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sangam::testing
