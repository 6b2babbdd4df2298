#include "worker/backend/cpu/bf16.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/backend/cpu/rounding_cases.h"

namespace sangam::cpu_kernels {
namespace {

float Round(float x) { return RoundedToBf16(x); }
using Cases = testing::RoundingCases<16, Round, RoundToBf16>;

TEST(Bf16Test, RoundsToNearestTiesToEven) { Cases::RoundsToNearestTiesToEven(); }
TEST(Bf16Test, EveryShortNumberStaysAndItsNeighboursComeBack) {
  Cases::EveryShortNumberStaysAndItsNeighboursComeBack();
}
TEST(Bf16Test, InfinityAndNaNStay) { Cases::InfinityAndNaNStay(); }
TEST(Bf16Test, ArraysAreRoundedAlike) { Cases::ArraysAreRoundedAlike(); }

TEST(Bf16Test, PackedAreTheUpperHalves) {
  std::vector<float> x;
  for (int i = 0; i < 100; ++i) x.push_back(static_cast<float>(i) * 1.2345e-3f - 0.05f);
  x[77] = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint16_t> packed(x.size());
  PackBf16(x.data(), 100, packed.data());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(packed[i], testing::ToBits(RoundedToBf16(x[i])) >> 16) << i;
  }
}

}  // namespace
}  // namespace sangam::cpu_kernels
