#include "worker/backend/cpu/layer_norm.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/cpu/lanes.h"
#include "worker/backend/views.h"

// What the functions compute is tested by the conformance test; here: the order of their sums.
namespace sangam::cpu_kernels {
namespace {

using ::sangam::testing::RandomFloats;

constexpr int64_t kRows = 13;
constexpr int64_t kCols = 203;

struct Example {
  std::vector<float> x = RandomFloats(kRows * kCols, 1, -3, 3);
  std::vector<float> dy = RandomFloats(kRows * kCols, 2);
  std::vector<float> gain = RandomFloats(kCols, 3);
  std::vector<float> bias = RandomFloats(kCols, 4);
  std::vector<float> y = std::vector<float>(kRows * kCols);
  std::vector<float> mean = std::vector<float>(kRows);
  std::vector<float> inverse = std::vector<float>(kRows);
  ConstMatrix in{x.data(), kRows, kCols};

  void Norm() {
    LayerNorm(in, gain.data(), bias.data(), 0.5f, y.data(), mean.data(), inverse.data());
  }
};

TEST(CpuLayerNormTest, RowsAreSummedInLanes) {
  Example e;
  e.Norm();
  for (size_t r = 0; r < kRows; ++r) {
    const float* x = e.x.data() + r * kCols;
    float lanes[kLanes] = {};
    for (size_t j = 0; j < kCols; ++j) lanes[j % kLanes] += x[j];
    const float mean = FoldSum(lanes) / static_cast<float>(kCols);
    float squares[kLanes] = {};
    for (size_t j = 0; j < kCols; ++j) squares[j % kLanes] += (x[j] - mean) * (x[j] - mean);
    EXPECT_EQ(e.mean[r], mean);
    EXPECT_EQ(e.inverse[r], 1.0f / std::sqrt(FoldSum(squares) / static_cast<float>(kCols) + 0.5f));
  }
}

TEST(CpuLayerNormTest, ParameterGradientsTakeRowsInOrder) {
  Example e;
  e.Norm();
  for (const bool accumulate : {false, true}) {
    std::vector<float> gain = RandomFloats(kCols, 5);
    std::vector<float> bias = RandomFloats(kCols, 6);
    std::vector<float> of_gain = accumulate ? gain : std::vector<float>(kCols, 0.0f);
    std::vector<float> of_bias = accumulate ? bias : std::vector<float>(kCols, 0.0f);
    for (size_t i = 0; i < e.x.size(); ++i) {
      const size_t r = i / kCols;
      of_gain[i % kCols] += (e.dy[i] * (e.x[i] - e.mean[r])) * e.inverse[r];
      of_bias[i % kCols] += e.dy[i];
    }
    LayerNormParameterGradients(e.in, e.mean.data(), e.inverse.data(), e.dy.data(), accumulate,
                                gain.data(), bias.data());
    EXPECT_EQ(gain, of_gain);
    EXPECT_EQ(bias, of_bias);
  }
}

}  // namespace
}  // namespace sangam::cpu_kernels
