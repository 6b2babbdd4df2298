#include "worker/backend/cpu/dropout.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/philox.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"

namespace sangam::cpu_kernels {
namespace {

using ::sangam::testing::RandomFloats;

// Bit for bit the definition in backend.h, for rates whose threshold is and is not a whole number
// of 2^-24.
TEST(CpuDropoutTest, IsTheDefinition) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kCols = 600;
  const std::vector<float> x = RandomFloats(kRows * kCols, 1);
  DropoutAddress address;
  address.seed = 9;
  address.step = 8;
  address.layer = 7;
  address.first_position = 6;
  for (const float rate : {0.0f, 1e-9f, 0.1f, 0.5f, 0.75f, 0.9f, 0.99999994f}) {
    std::vector<float> expected;
    for (int64_t i = 0; i < kRows; ++i) {
      const RandomStream stream(9, RandomPurpose::kDropout, 8,
                                uint64_t{7} << 32 | static_cast<uint64_t>(6 + i));
      for (int64_t e = 0; e < kCols; ++e) {
        const bool kept = ToUnitFloat(stream.At(static_cast<uint64_t>(e))) >= rate;
        const float scaled = x[static_cast<size_t>(i * kCols + e)] * (1.0f / (1.0f - rate));
        expected.push_back(kept ? scaled : 0.0f);
      }
    }
    std::vector<float> y(x.size());
    Dropout(address, rate, {x.data(), kRows, kCols}, y.data());
    EXPECT_EQ(y, expected) << rate;
  }
}

// An element is kept when its number is the rate itself, and dropped when the rate is the next
// float, which below 1/2 lies between two multiples of 2^-24.
TEST(CpuDropoutTest, TheThresholdIsExact) {
  const DropoutAddress address;
  const RandomStream stream(0, RandomPurpose::kDropout, 0, 0);
  const std::vector<float> ones(100, 1.0f);
  std::vector<float> y(100);
  int tried = 0;
  for (size_t e = 0; e < ones.size(); ++e) {
    const float number = ToUnitFloat(stream.At(e));
    if (number >= 0.5f) continue;
    Dropout(address, number, {ones.data(), 1, 100}, y.data());
    EXPECT_NE(y[e], 0.0f) << e;
    Dropout(address, std::nextafter(number, 1.0f), {ones.data(), 1, 100}, y.data());
    EXPECT_EQ(y[e], 0.0f) << e;
    ++tried;
  }
  EXPECT_GT(tried, 20);
}

}  // namespace
}  // namespace sangam::cpu_kernels
