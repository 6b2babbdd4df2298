#include "worker/backend/cpu/rotary.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "xxhash.h"

// What the operation computes is tested by the conformance test; here: how exactly.
namespace sangam {
namespace {

using ::sangam::testing::RandomFloats;

std::vector<float> Turn(CpuRotary* rotary, int64_t positions, int64_t heads, int64_t head_width,
                        bool backward) {
  const int64_t rows = 2 * positions;
  const int64_t cols = 3 * heads * head_width;
  std::vector<float> x = RandomFloats(rows * cols, 1);
  Rotation rotation;
  rotation.positions = positions;
  rotation.heads = heads;
  rotation.backward = backward;
  EXPECT_TRUE(rotary->Rotate(rotation, {x.data(), rows, cols}, x.data()).ok());
  return x;
}

// Fingerprints as in elementwise_test.cc. Head widths with whole chunks, a part of one, and both.
TEST(CpuRotaryTest, BitsAreTheSameOnEveryMachine) {
  CpuRotary rotary;
  const auto hash = [&](int64_t head_width, bool backward) {
    const std::vector<float> y = Turn(&rotary, 300, 2, head_width, backward);
    return XXH64(y.data(), y.size() * sizeof(float), 0);
  };
  EXPECT_EQ(hash(64, false), 4603717141021224063u);
  EXPECT_EQ(hash(64, true), 13392230586671563636u);
  EXPECT_EQ(hash(6, false), 15461719253212580182u);
  EXPECT_EQ(hash(22, true), 10459379554599215780u);
}

// Fewer positions than before use the same memory with other strides.
TEST(CpuRotaryTest, TablesFitTheShape) {
  CpuRotary used;
  Turn(&used, 40, 2, 8, false);
  for (const int64_t positions : {20, 40}) {
    CpuRotary fresh;
    EXPECT_EQ(Turn(&used, positions, 2, 8, false), Turn(&fresh, positions, 2, 8, false));
  }
}

}  // namespace
}  // namespace sangam
