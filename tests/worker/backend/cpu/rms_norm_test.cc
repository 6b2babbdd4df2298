#include "worker/backend/cpu/rms_norm.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/cpu/lanes.h"
#include "worker/backend/views.h"
#include "xxhash.h"

// What the functions compute is tested by the conformance test; here: how exactly.
namespace sangam::cpu_kernels {
namespace {

using ::sangam::testing::RandomFloats;

constexpr int64_t kRows = 13;
constexpr int64_t kCols = 203;

uint64_t Hash(const std::vector<float>& values) {
  return XXH64(values.data(), values.size() * sizeof(float), 0);
}

struct Example {
  std::vector<float> x = RandomFloats(kRows * kCols, 1, -3, 3);
  std::vector<float> gain = RandomFloats(kCols, 2);
  std::vector<float> dy = RandomFloats(kRows * kCols, 3);
  std::vector<float> y = std::vector<float>(kRows * kCols);
  std::vector<float> inverse_rms = std::vector<float>(kRows);
  ConstMatrix in{x.data(), kRows, kCols};
};

// Fingerprints as in elementwise_test.cc.
TEST(CpuRmsNormTest, BitsAreTheSameOnEveryMachine) {
  Example e;
  RmsNorm(e.in, e.gain.data(), 1e-5f, e.y.data(), e.inverse_rms.data());
  EXPECT_EQ(Hash(e.y), 15500269703744680966u);
  EXPECT_EQ(Hash(e.inverse_rms), 11272539313758244523u);
  RmsNormBackward(e.in, e.gain.data(), e.inverse_rms.data(), e.dy.data(), e.y.data());
  EXPECT_EQ(Hash(e.y), 17078405427328579121u);
}

TEST(CpuRmsNormTest, SquaresAreSummedInLanes) {
  Example e;
  RmsNorm(e.in, e.gain.data(), 0.5f, e.y.data(), e.inverse_rms.data());
  for (int64_t r = 0; r < kRows; ++r) {
    const float* x = e.x.data() + r * kCols;
    float lanes[kLanes] = {};
    for (int64_t j = 0; j < kCols; ++j) lanes[j % kLanes] += x[j] * x[j];
    const float sum = FoldSum(lanes);
    EXPECT_EQ(e.inverse_rms[static_cast<size_t>(r)],
              1.0f / std::sqrt(sum / static_cast<float>(kCols) + 0.5f));
  }
}

TEST(CpuRmsNormTest, GainGradientTakesRowsInOrder) {
  Example e;
  RmsNorm(e.in, e.gain.data(), 1e-5f, e.y.data(), e.inverse_rms.data());
  for (const bool accumulate : {false, true}) {
    std::vector<float> out = RandomFloats(kCols, 4);
    std::vector<float> expected = accumulate ? out : std::vector<float>(kCols, 0.0f);
    for (size_t i = 0; i < e.x.size(); ++i) {
      expected[i % kCols] += (e.dy[i] * e.x[i]) * e.inverse_rms[i / kCols];
    }
    RmsNormGainGradient(e.in, e.inverse_rms.data(), e.dy.data(), accumulate, out.data());
    EXPECT_EQ(out, expected);
  }
}

}  // namespace
}  // namespace sangam::cpu_kernels
