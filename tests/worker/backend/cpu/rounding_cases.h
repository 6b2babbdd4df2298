#ifndef SANGAM_TESTS_WORKER_BACKEND_CPU_ROUNDING_CASES_H_
#define SANGAM_TESTS_WORKER_BACKEND_CPU_ROUNDING_CASES_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

// What every short format must do that keeps the upper bits of a binary32 number.
namespace sangam::testing {

inline float FromBits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

inline uint32_t ToBits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

// Of which a case knows how a number and how an array are rounded.
template <int kDroppedBits, float (*kRound)(float),
          void (*kRoundArray)(const float*, int64_t, float*)>
struct RoundingCases {
  static void RoundsToNearestTiesToEven() {
    // From 1 to the next number.
    const float unit = std::ldexp(1.0f, kDroppedBits - 23);
    EXPECT_EQ(kRound(1.0f), 1.0f);
    EXPECT_EQ(kRound(1.0f + unit / 4), 1.0f);
    EXPECT_EQ(kRound(1.0f + unit / 2), 1.0f);  // a tie; 1 is even
    EXPECT_EQ(kRound(1.0f + unit * 3 / 4), 1.0f + unit);
    EXPECT_EQ(kRound(1.0f + unit + unit / 2), 1.0f + 2 * unit);  // a tie upwards
    EXPECT_EQ(kRound(-1.0f - unit - unit / 2), -1.0f - 2 * unit);
  }

  static void EveryShortNumberStaysAndItsNeighboursComeBack() {
    constexpr uint32_t kHalf = uint32_t{1} << (kDroppedBits - 1);
    constexpr uint32_t kInfinity = 0x7F800000u >> kDroppedBits;
    for (uint32_t upper = 0; upper <= kInfinity; ++upper) {
      const float x = FromBits(upper << kDroppedBits);
      ASSERT_EQ(kRound(x), x);
      if (upper == kInfinity) break;
      ASSERT_EQ(kRound(FromBits((upper << kDroppedBits) + kHalf - 1)), x);
      ASSERT_EQ(kRound(FromBits((upper << kDroppedBits) + kHalf + 1)),
                FromBits((upper + 1) << kDroppedBits));
    }
  }

  static void InfinityAndNaNStay() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(kRound(kInfinity), kInfinity);
    EXPECT_EQ(kRound(-kInfinity), -kInfinity);
    EXPECT_EQ(kRound(std::numeric_limits<float>::max()), kInfinity);
    // Signalling, with bits only where they are cut off; and all bits set.
    for (const uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
      const float rounded = kRound(FromBits(bits));
      EXPECT_TRUE(std::isnan(rounded)) << bits;
      EXPECT_NE(ToBits(rounded) & 0x00400000u, 0u) << bits;  // quiet
    }
  }

  static void ArraysAreRoundedAlike() {
    std::vector<float> x;
    for (int i = 0; i < 100; ++i) x.push_back(static_cast<float>(i) * 1.2345e-3f - 0.05f);
    x[77] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> rounded = x;
    kRoundArray(rounded.data(), 100, rounded.data());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(ToBits(rounded[i]), ToBits(kRound(x[i]))) << i;
  }
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_BACKEND_CPU_ROUNDING_CASES_H_
