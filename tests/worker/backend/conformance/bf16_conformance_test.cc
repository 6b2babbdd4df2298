#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
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

// Every backend of the build with factors in bfloat16: results are those of plain loops over the
// rounded factors.
namespace sangam::testing {
namespace {

// Rounded by arithmetic, not by bits: to the 8 leading binary digits, ties to even.
double Rounded(double x) {
  if (x == 0) return 0;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, exponent - 8);
  return std::nearbyint(x / unit) * unit;
}

Values Rounded(const std::vector<float>& values) {
  Values rounded;
  for (const float value : values) rounded.push_back(Rounded(double{value}));
  return rounded;
}

Values Sizes(Values values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

double Tolerance(int64_t terms) { return static_cast<double>(terms + 3) * 0x1p-24; }

class Bf16ConformanceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const absl::Status status = CreateBackend(GetParam()).status();
    if (absl::IsFailedPrecondition(status)) GTEST_SKIP() << status;
  }
  static std::unique_ptr<Backend> New(Precision precision = Precision::kBf16) {
    auto backend = CreateBackend(GetParam(), precision);
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }
};

struct GemmCase {
  int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
};

std::vector<float> Multiply(Backend* backend, const GemmCase& c, int64_t offset) {
  const auto rows = [](bool transpose, int64_t r, int64_t s) { return transpose ? s : r; };
  const DeviceMatrix a(backend, rows(c.transpose_a, c.m, c.k), rows(c.transpose_a, c.k, c.m),
                       RandomFloats(c.m * c.k, 1), offset);
  const DeviceMatrix b(backend, rows(c.transpose_b, c.k, c.n), rows(c.transpose_b, c.n, c.k),
                       RandomFloats(c.k * c.n, 2), 3 * offset);
  const DeviceMatrix out(backend, c.m, c.n, RandomFloats(c.m * c.n, 3), offset);
  GemmArguments arguments;
  arguments.a = a.view();
  arguments.transpose_a = c.transpose_a;
  arguments.b = b.view();
  arguments.transpose_b = c.transpose_b;
  arguments.c = out.view();
  arguments.accumulate = c.accumulate;
  const absl::Status status = backend->Gemm(arguments);
  EXPECT_TRUE(status.ok()) << status;
  // The factors themselves stay.
  EXPECT_EQ(a.Read(), RandomFloats(c.m * c.k, 1));
  return out.Read();
}

std::vector<GemmCase> GemmCases() {
  std::vector<GemmCase> cases;
  const std::vector<std::vector<int64_t>> sizes = {{1, 1, 1},      {3, 5, 7},    {33, 17, 65},
                                                   {32, 512, 100}, {5, 10, 300}, {4, 3, 0}};
  for (const auto& size : sizes) {
    for (int form = 0; form < 8; ++form) {
      cases.push_back(
          {size[0], size[1], size[2], (form & 1) != 0, (form & 2) != 0, (form & 4) != 0});
    }
  }
  return cases;
}

TEST_P(Bf16ConformanceTest, GemmMultipliesRoundedFactors) {
  const auto backend = New();
  for (const GemmCase& c : GemmCases()) {
    const Values a = Rounded(RandomFloats(c.m * c.k, 1));
    const Values b = Rounded(RandomFloats(c.k * c.n, 2));
    const std::vector<float> before = RandomFloats(c.m * c.n, 3);
    const std::vector<float> found = Multiply(backend.get(), c, 0);
    for (int64_t i = 0; i < c.m * c.n; ++i) {
      const int64_t row = i / c.n;
      const int64_t col = i % c.n;
      double sum = c.accumulate ? before[static_cast<size_t>(i)] : 0.0;
      double size = std::abs(sum);
      for (int64_t q = 0; q < c.k; ++q) {
        const double term = a[static_cast<size_t>(c.transpose_a ? q * c.m + row : row * c.k + q)] *
                            b[static_cast<size_t>(c.transpose_b ? col * c.k + q : q * c.n + col)];
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(found[static_cast<size_t>(i)], sum, Tolerance(c.k) * size);
    }
    for (const int64_t offset : {1, 3}) ASSERT_EQ(Multiply(backend.get(), c, offset), found);
  }
}

TEST_P(Bf16ConformanceTest, EpiloguesAreNotRounded) {
  const auto backend = New();
  const DeviceMatrix a(backend.get(), 1, 1, std::vector<float>{1.0f});
  const DeviceMatrix c(backend.get(), 1, 1);
  const DeviceMatrix bias(backend.get(), 1, 1, std::vector<float>{1.0f + 0x1p-20f});
  GemmArguments arguments;
  arguments.a = a.view();
  arguments.b = a.view();
  arguments.c = c.view();
  arguments.epilogue = Epilogue::kBias;
  arguments.bias = bias.view();
  ASSERT_TRUE(backend->Gemm(arguments).ok());
  EXPECT_EQ(c.Read()[0], 2.0f + 0x1p-20f);
}

TEST_P(Bf16ConformanceTest, ConvolutionsMultiplyRoundedFactors) {
  const auto backend = New();
  for (const WindowCase& c : WindowCases()) {
    const int64_t cols =
        c.shape.window.kernel_height * c.shape.window.kernel_width * c.shape.in.channels;
    const std::vector<float> x = RandomFloats(c.in_elements(), 1);
    const std::vector<float> weight = RandomFloats(c.shape.out_channels * cols, 2);
    const std::vector<float> dy = RandomFloats(c.out_elements(), 3);
    const DeviceMatrix in(backend.get(), c.images, c.shape.in.elements(), x);
    const DeviceMatrix weights(backend.get(), c.shape.out_channels, cols, weight);
    const DeviceMatrix gradient(backend.get(), c.images, c.shape.out().elements(), dy);
    const DeviceMatrix out(backend.get(), c.images, c.shape.out().elements());
    const DeviceMatrix dx(backend.get(), c.images, c.shape.in.elements());
    const DeviceMatrix dw(backend.get(), c.shape.out_channels, cols);
    ASSERT_TRUE(
        backend->Conv2d(c.shape, in.view(), weights.view(), Epilogue::kNone, {}, out.view()).ok());
    ASSERT_TRUE(
        backend->Conv2dBackwardInput(c.shape, weights.view(), gradient.view(), dx.view()).ok());
    ASSERT_TRUE(
        backend->Conv2dBackwardWeight(c.shape, in.view(), gradient.view(), false, dw.view()).ok());
    const ReferenceWindow window = c.reference();
    const auto expect_near = [&](const std::vector<float>& found, const Values& expected,
                                 const Values& size, int64_t terms) {
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], Tolerance(terms) * size[i]) << c.name() << " " << i;
      }
    };
    const Values rx = Rounded(x);
    const Values rw = Rounded(weight);
    const Values rd = Rounded(dy);
    expect_near(out.Read(), Conv2d(window, rx, rw, {}), Conv2d(window, Sizes(rx), Sizes(rw), {}),
                cols);
    const Conv2dGradients expected = Conv2dBackward(window, rx, rw, rd);
    const Conv2dGradients size = Conv2dBackward(window, Sizes(rx), Sizes(rw), Sizes(rd));
    expect_near(dx.Read(), expected.x, size.x, cols * c.shape.out_channels);
    expect_near(dw.Read(), expected.weight, size.weight, c.images * c.shape.out().pixels());
  }
}

// The exponentials and score gradients within are rounded too: as exact as bfloat16 is.
TEST_P(Bf16ConformanceTest, AttentionIsAsExactAsItsFactors) {
  const SequenceShape shape = {2, 37, 3, 8};
  const AttentionShape of_backend = {37, 3};
  const std::vector<float> x = RandomFloats(2 * 37 * 72, 1, -2, 2);
  const std::vector<float> dy = RandomFloats(2 * 37 * 24, 2);
  const AttentionValues values = CausalAttention(shape, Rounded(x));
  const Values gradient = CausalAttentionBackward(shape, Rounded(x), Rounded(dy));
  std::vector<std::vector<float>> found;
  for (const Precision precision : {Precision::kBf16, Precision::kFp32}) {
    const auto backend = New(precision);
    const DeviceMatrix qkv(backend.get(), 74, 72, x);
    const DeviceMatrix d(backend.get(), 74, 24, dy);
    const DeviceMatrix out(backend.get(), 74, 24);
    const DeviceMatrix log_sum(backend.get(), 74, 3);
    const DeviceMatrix dx(backend.get(), 74, 72);
    ASSERT_TRUE(backend->CausalAttention(of_backend, qkv.view(), out.view(), log_sum.view()).ok());
    ASSERT_TRUE(backend
                    ->CausalAttentionBackward(of_backend, qkv.view(), out.view(), log_sum.view(),
                                              d.view(), dx.view())
                    .ok());
    found.push_back(out.Read());
    found.push_back(dx.Read());
  }
  for (size_t i = 0; i < found[0].size(); ++i) ASSERT_NEAR(found[0][i], values.y[i], 0x1p-6) << i;
  for (size_t i = 0; i < found[1].size(); ++i) ASSERT_NEAR(found[1][i], gradient[i], 0x1p-4) << i;
  EXPECT_NE(found[0], found[2]);
  EXPECT_NE(found[1], found[3]);
}

TEST_P(Bf16ConformanceTest, NaNStays) {
  const auto backend = New();
  uint32_t bits = 0x7F800001;  // all that says NaN would be cut off
  float nan;
  std::memcpy(&nan, &bits, sizeof(nan));
  const DeviceMatrix a(backend.get(), 1, 1, std::vector<float>{nan});
  const DeviceMatrix b(backend.get(), 1, 1, std::vector<float>{1.0f});
  const DeviceMatrix c(backend.get(), 1, 1);
  GemmArguments arguments;
  arguments.a = a.view();
  arguments.b = b.view();
  arguments.c = c.view();
  ASSERT_TRUE(backend->Gemm(arguments).ok());
  EXPECT_TRUE(std::isnan(c.Read()[0]));
}

TEST_P(Bf16ConformanceTest, BitsDoNotDependOnOtherLanes) {
  const GemmCase c = {64, 96, 200, false, true, true};
  const std::vector<float> alone = Multiply(New().get(), c, 0);
  std::vector<std::vector<float>> together(4);
  std::vector<std::thread> lanes;
  for (std::vector<float>& result : together) {
    lanes.emplace_back([&result, &c] {
      const auto backend = New();
      for (int i = 0; i < 20; ++i) result = Multiply(backend.get(), c, i % 3);
    });
  }
  for (std::thread& lane : lanes) lane.join();
  for (const std::vector<float>& result : together) EXPECT_EQ(result, alone);
}

INSTANTIATE_TEST_SUITE_P(Backends, Bf16ConformanceTest, ::testing::ValuesIn(BackendNames()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sangam::testing
