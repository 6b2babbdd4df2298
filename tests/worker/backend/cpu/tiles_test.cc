#include "worker/backend/cpu/tiles.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"

namespace sangam::cpu_kernels {
namespace {

using ::sangam::testing::RandomFloats;

float At(const std::vector<float>& values, int64_t at) { return values[static_cast<size_t>(at)]; }

template <int kRows>
void ExpectSumsInOrder(int64_t steps, bool accumulate) {
  constexpr int64_t kRowOfC = kPanel + 3;
  // a is read down its columns.
  const int64_t a_row = 2;
  const int64_t a_step = 2 * kRows + 1;
  const std::vector<float> a = RandomFloats(steps * a_step + 2 * kRows, 1);
  const std::vector<float> panel = RandomFloats(steps * kPanel, 2);
  std::vector<float> c = RandomFloats(kRows * kRowOfC, 3);
  std::vector<float> expected = c;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t j = 0; j < kPanel; ++j) {
      float sum = accumulate ? At(c, r * kRowOfC + j) : 0.0f;
      for (int64_t s = 0; s < steps; ++s) {
        sum += At(a, r * a_row + s * a_step) * At(panel, s * kPanel + j);
      }
      expected[static_cast<size_t>(r * kRowOfC + j)] = sum;
    }
  }
  MultiplyTile<kRows>(a.data(), a_row, a_step, panel.data(), steps, accumulate, c.data(), kRowOfC);
  EXPECT_EQ(c, expected) << kRows << " rows, " << steps << " steps";
}

TEST(TilesTest, ProductsAreSummedInOrder) {
  for (const int64_t steps : {0, 1, 2, 37}) {
    for (const bool accumulate : {false, true}) {
      ExpectSumsInOrder<1>(steps, accumulate);
      ExpectSumsInOrder<kTileRows>(steps, accumulate);
    }
  }
}

TEST(TilesTest, PanelsHoldColumnsOrRowsAndZeros) {
  for (const int64_t rows : {1, 16, 21}) {
    for (const int64_t cols : {1, 15, 16, 33}) {
      const int64_t stride = cols + 5;
      const std::vector<float> in = RandomFloats(rows * stride, 1);
      std::vector<float> panels(static_cast<size_t>(rows * RoundUpToPanel(cols)), -1.0f);
      PackColumns(in.data(), stride, rows, cols, panels.data());
      for (int64_t j = 0; j < RoundUpToPanel(cols); ++j) {
        for (int64_t r = 0; r < rows; ++r) {
          const float expected = j < cols ? At(in, r * stride + j) : 0.0f;
          ASSERT_EQ(At(panels, (j / kPanel * rows + r) * kPanel + j % kPanel), expected);
        }
      }
      panels.assign(static_cast<size_t>(RoundUpToPanel(rows) * cols), -1.0f);
      PackRows(in.data(), stride, rows, cols, panels.data());
      for (int64_t r = 0; r < RoundUpToPanel(rows); ++r) {
        for (int64_t j = 0; j < cols; ++j) {
          const float expected = r < rows ? At(in, r * stride + j) : 0.0f;
          ASSERT_EQ(At(panels, (r / kPanel * cols + j) * kPanel + r % kPanel), expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sangam::cpu_kernels
