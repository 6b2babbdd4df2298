#include "worker/backend/cpu/tf32.h"

#include "gtest/gtest.h"
#include "tests/worker/backend/cpu/rounding_cases.h"

namespace sangam::cpu_kernels {
namespace {

float Round(float x) { return RoundedToTf32(x); }
using Cases = testing::RoundingCases<13, Round, RoundToTf32>;

TEST(Tf32Test, RoundsToNearestTiesToEven) { Cases::RoundsToNearestTiesToEven(); }
TEST(Tf32Test, EveryShortNumberStaysAndItsNeighboursComeBack) {
  Cases::EveryShortNumberStaysAndItsNeighboursComeBack();
}
TEST(Tf32Test, InfinityAndNaNStay) { Cases::InfinityAndNaNStay(); }
TEST(Tf32Test, ArraysAreRoundedAlike) { Cases::ArraysAreRoundedAlike(); }

}  // namespace
}  // namespace sangam::cpu_kernels
