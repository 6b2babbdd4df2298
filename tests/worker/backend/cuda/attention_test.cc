#include "worker/backend/cuda/attention.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/attention.h"
#include "worker/backend/precision.h"
#include "worker/backend/shapes.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Example {
  int64_t sequences, positions, heads, head_width;
  std::vector<float> x = RandomFloats(rows() * 3 * width(), 1, -2, 2);
  std::vector<float> dy = RandomFloats(rows() * width(), 2);

  Example(int64_t sequences_in, int64_t positions_in, int64_t heads_in, int64_t head_width_in)
      : sequences(sequences_in),
        positions(positions_in),
        heads(heads_in),
        head_width(head_width_in) {}

  int64_t rows() const { return sequences * positions; }
  int64_t width() const { return heads * head_width; }
  AttentionShape shape() const { return {positions, heads}; }
};

// The output, the logarithms of the sums, and the gradient, one behind the other.
std::vector<float> OnCpu(const Example& e, Precision precision) {
  CpuAttention attention(precision);
  const ConstMatrix qkv(e.x.data(), e.rows(), 3 * e.width());
  std::vector<float> out(static_cast<size_t>(e.rows() * e.width()));
  std::vector<float> log_sum(static_cast<size_t>(e.rows() * e.heads));
  std::vector<float> gradient(e.x.size());
  EXPECT_TRUE(attention.Forward(e.shape(), qkv, out.data(), log_sum.data()).ok());
  EXPECT_TRUE(
      attention.Backward(e.shape(), qkv, out.data(), log_sum.data(), e.dy.data(), gradient.data())
          .ok());
  return Joined(Joined(out, log_sum), gradient);
}

std::vector<float> OnDevice(const Example& e, Precision precision, int64_t offset = 0) {
  const DeviceFloats x(e.x, offset);
  const DeviceFloats dy(e.dy, offset);
  const DeviceFloats out(e.rows() * e.width(), offset);
  const DeviceFloats log_sum(e.rows() * e.heads, offset);
  const DeviceFloats gradient(static_cast<int64_t>(e.x.size()), offset);
  const DeviceBytes scratch(CausalAttentionBackwardScratchBytes(e.shape(), e.rows()));
  const ConstMatrix qkv(x.data(), e.rows(), 3 * e.width());
  EXPECT_EQ(CausalAttention(nullptr, e.shape(), precision, qkv, out.data(), log_sum.data()),
            cudaSuccess);
  EXPECT_EQ(CausalAttentionBackward(nullptr, e.shape(), precision, qkv, out.data(), log_sum.data(),
                                    dy.data(), scratch.data(), gradient.data()),
            cudaSuccess);
  return Joined(Joined(out.Read(), log_sum.Read()), gradient.Read());
}

TEST(CudaAttentionTest, IsAsOnTheCpu) {
  for (const Example& e : {Example(1, 1, 1, 1), Example(2, 3, 2, 5), Example(3, 33, 2, 8),
                           Example(1, 64, 1, 36), Example(2, 65, 1, 31), Example(1, 131, 2, 64)}) {
    SCOPED_TRACE(e.positions);
    const std::vector<float> found =
        SameInAllRuns([&e](int64_t offset) { return OnDevice(e, Precision::kFp32, offset); });
    ExpectNear(found, OnCpu(e, Precision::kFp32), 4e-6f);
  }
}

TEST(CudaAttentionTest, WideHeads) {
  for (const int64_t width : {65, 100, 128, 129, 256, 300}) {
    SCOPED_TRACE(width);
    const Example e(1, 70, 1, width);
    ExpectNear(OnDevice(e, Precision::kFp32), OnCpu(e, Precision::kFp32), 1e-5f);
    EXPECT_EQ(OnDevice(e, Precision::kFp32, 1), OnDevice(e, Precision::kFp32, 4));
  }
}

TEST(CudaAttentionTest, RoundsFactors) {
  const Example e(2, 67, 2, 20);
  const std::vector<float> found = OnDevice(e, Precision::kBf16);
  // The exponentials that are rounded are taken from other largest scores.
  ExpectNear(found, OnCpu(e, Precision::kBf16), 0x1p-6f);
  EXPECT_NE(found, OnDevice(e, Precision::kFp32));
  EXPECT_EQ(OnDevice(e, Precision::kTf32), OnDevice(e, Precision::kFp32));
}

// Where there is one position, every factor is seen alone.
TEST(CudaAttentionTest, RoundsEachFactorOnce) {
  Example e(1, 1, 1, 1);
  e.x = {1.0f, 1.0f, 1.0f + 0x1p-8f};
  e.dy = {1.0f + 3 * 0x1p-8f};
  const std::vector<float> found = OnDevice(e, Precision::kBf16);
  EXPECT_EQ(found[0], 1.0f);                // ties go to the even one
  EXPECT_EQ(found[4], 1.0f + 4 * 0x1p-8f);  // of the value
  EXPECT_EQ(OnDevice(e, Precision::kFp32)[0], 1.0f + 0x1p-8f);
}

// Neither the results of a position nor the gradients of what comes later see each other.
TEST(CudaAttentionTest, NoNaNGoesAgainstTime) {
  const Example e(1, 70, 1, 20);
  const std::vector<float> whole = OnDevice(e, Precision::kFp32);
  const auto of_position = [&e](const std::vector<float>& all, int64_t t) {
    return std::vector<float>(all.begin() + t * e.width(), all.begin() + (t + 1) * e.width());
  };
  for (const int64_t now : {0, 5, 31, 63, 64, 68}) {
    Example future = e;
    std::fill(future.x.begin() + (now + 1) * 3 * e.width(), future.x.end(), kNaN);
    const std::vector<float> found = OnDevice(future, Precision::kFp32);
    for (int64_t t = 0; t <= now; ++t) EXPECT_EQ(of_position(found, t), of_position(whole, t));
    for (int64_t t = now + 1; t < e.positions; ++t) {
      EXPECT_TRUE(std::isnan(of_position(found, t)[0])) << t;
    }

    // Queries that a key does not meet.
    Example past = e;
    for (int64_t t = 0; t < now; ++t) {
      for (int64_t j = 0; j < e.width(); ++j) {
        past.x[static_cast<size_t>(3 * t * e.width() + j)] = kNaN;
        past.dy[static_cast<size_t>(t * e.width() + j)] = kNaN;
      }
    }
    const std::vector<float> gradients = OnDevice(past, Precision::kFp32);
    const auto first = static_cast<size_t>(e.rows() * (e.width() + e.heads));
    for (size_t i = first + static_cast<size_t>(3 * now * e.width()); i < gradients.size(); ++i) {
      ASSERT_EQ(gradients[i], whole[i]) << now << " " << i;
    }
  }
}

TEST(CudaAttentionTest, NaNIsNotHidden) {
  for (const int64_t part : {0, 1, 2}) {
    Example e(1, 70, 1, 16);
    e.x[static_cast<size_t>(66 * 3 * 16 + part * 16 + 15)] = kNaN;
    const std::vector<float> found = OnDevice(e, Precision::kFp32);
    EXPECT_TRUE(std::isnan(found[66 * 16 + 15])) << part;
    EXPECT_FALSE(std::isnan(found[65 * 16 + 15])) << part;
  }
}

TEST(CudaAttentionTest, LargeScoresDoNotOverflow) {
  Example e(1, 3, 1, 1);
  e.x = {0, 0, 5, 1000, 1000, 7, -1000, 0, 9};
  const std::vector<float> found = OnDevice(e, Precision::kFp32);
  EXPECT_EQ(std::vector<float>(found.begin(), found.begin() + 3), (std::vector<float>{5, 7, 7}));
  EXPECT_EQ(found[3], 0.0f);
  EXPECT_EQ(found[4], 1e6f);
  EXPECT_NEAR(found[5], std::log(2.0), 1e-7);
}

// Scores that are -inf count for nothing; where there are no others, the result is no number.
TEST(CudaAttentionTest, ScoresOfMinusInfinity) {
  Example e(1, 70, 1, 1);
  std::fill(e.x.begin(), e.x.end(), 1.0f);
  for (size_t t = 0; t < 70; ++t) e.x[3 * t] = 2.0f;
  for (size_t t = 0; t < 65; ++t) e.x[3 * t + 1] = -std::numeric_limits<float>::max();
  const std::vector<float> found = OnDevice(e, Precision::kFp32);
  EXPECT_TRUE(std::isnan(found[64]));
  EXPECT_EQ(found[65], 1.0f);
  EXPECT_EQ(found[69], 1.0f);
}

}  // namespace
}  // namespace sangam::cuda_kernels
