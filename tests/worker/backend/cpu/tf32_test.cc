#include "worker/backend/cpu/tf32.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace sangam::cpu_kernels {
namespace {

float FromBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

TEST(Tf32Test, RoundsToNearestTiesToEven) {
  // 1 + 2^-10 is the next number after 1.
  EXPECT_EQ(RoundedToTf32(1.0f), 1.0f);
  EXPECT_EQ(RoundedToTf32(1.0f + 0x1p-12f), 1.0f);
  EXPECT_EQ(RoundedToTf32(1.0f + 0x1p-11f), 1.0f);  // a tie; 1 is even
  EXPECT_EQ(RoundedToTf32(1.0f + 0x1.8p-11f), 1.0f + 0x1p-10f);
  EXPECT_EQ(RoundedToTf32(1.0f + 0x1p-10f + 0x1p-11f), 1.0f + 0x1p-9f);  // a tie upwards
  EXPECT_EQ(RoundedToTf32(-1.0f - 0x1p-10f - 0x1p-11f), -1.0f - 0x1p-9f);
}

TEST(Tf32Test, EveryShortNumberStaysAndItsNeighboursComeBack) {
  for (uint32_t upper = 0; upper <= 0x7F800000u >> 13; ++upper) {
    const float x = FromBits(upper << 13);
    ASSERT_EQ(RoundedToTf32(x), x);
    if (upper == 0x7F800000u >> 13) break;
    ASSERT_EQ(RoundedToTf32(FromBits((upper << 13) + 0x0FFF)), x);
    ASSERT_EQ(RoundedToTf32(FromBits((upper << 13) + 0x1001)), FromBits((upper + 1) << 13));
  }
}

TEST(Tf32Test, InfinityAndNaNStay) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(RoundedToTf32(infinity), infinity);
  EXPECT_EQ(RoundedToTf32(-infinity), -infinity);
  EXPECT_EQ(RoundedToTf32(std::numeric_limits<float>::max()), infinity);
  // Signalling, with bits only where they are cut off; and all bits set.
  for (const uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    EXPECT_TRUE(std::isnan(RoundedToTf32(FromBits(bits)))) << bits;
  }
}

TEST(Tf32Test, ArraysAreRoundedAlike) {
  std::vector<float> x;
  for (int i = 0; i < 100; ++i) x.push_back(static_cast<float>(i) * 1.2345e-3f - 0.05f);
  std::vector<float> rounded = x;
  RoundToTf32(rounded.data(), 100, rounded.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(rounded[i], RoundedToTf32(x[i])) << i;
}

}  // namespace
}  // namespace sangam::cpu_kernels
