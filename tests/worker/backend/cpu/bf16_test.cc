#include "worker/backend/cpu/bf16.h"

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

TEST(Bf16Test, RoundsToNearestTiesToEven) {
  // 1 + 2^-7 is the next number after 1.
  EXPECT_EQ(RoundedToBf16(1.0f), 1.0f);
  EXPECT_EQ(RoundedToBf16(1.0f + 0x1p-9f), 1.0f);
  EXPECT_EQ(RoundedToBf16(1.0f + 0x1p-8f), 1.0f);  // a tie; 1 is even
  EXPECT_EQ(RoundedToBf16(1.0f + 0x1.8p-8f), 1.0f + 0x1p-7f);
  EXPECT_EQ(RoundedToBf16(1.0f + 0x1p-7f + 0x1p-8f), 1.0f + 0x1p-6f);  // a tie upwards
  EXPECT_EQ(RoundedToBf16(-1.0f - 0x1p-7f - 0x1p-8f), -1.0f - 0x1p-6f);
}

TEST(Bf16Test, EveryShortNumberStaysAndItsNeighboursComeBack) {
  for (uint32_t upper = 0; upper <= 0x7F80u; ++upper) {
    const float x = FromBits(upper << 16);
    ASSERT_EQ(RoundedToBf16(x), x);
    if (upper == 0x7F80u) break;
    ASSERT_EQ(RoundedToBf16(FromBits((upper << 16) + 0x7FFF)), x);
    ASSERT_EQ(RoundedToBf16(FromBits((upper << 16) + 0x8001)), FromBits((upper + 1) << 16));
  }
}

TEST(Bf16Test, InfinityAndNaNStay) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(RoundedToBf16(infinity), infinity);
  EXPECT_EQ(RoundedToBf16(-infinity), -infinity);
  EXPECT_EQ(RoundedToBf16(std::numeric_limits<float>::max()), infinity);
  // Signalling, with bits only where they are cut off; and all bits set.
  for (const uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    EXPECT_TRUE(std::isnan(RoundedToBf16(FromBits(bits)))) << bits;
    EXPECT_EQ(Bf16Bits(FromBits(bits)) & 0x40u, 0x40u) << bits;  // quiet
  }
}

TEST(Bf16Test, ArraysAreRoundedAlike) {
  std::vector<float> x;
  for (int i = 0; i < 100; ++i) x.push_back(static_cast<float>(i) * 1.2345e-3f - 0.05f);
  x[77] = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint16_t> packed(x.size());
  PackBf16(x.data(), 100, packed.data());
  std::vector<float> rounded = x;
  RoundToBf16(rounded.data(), 100, rounded.data());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(packed[i], Bf16Bits(x[i])) << i;
    const float expected = RoundedToBf16(x[i]);
    EXPECT_EQ(std::memcmp(&rounded[i], &expected, sizeof(float)), 0) << i;
  }
}

}  // namespace
}  // namespace sangam::cpu_kernels
