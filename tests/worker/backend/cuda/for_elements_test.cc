#include "worker/backend/cuda/for_elements.cuh"

#include <cuda_runtime.h>

#include <cstdint>

#include "gtest/gtest.h"

// The loop itself is tested by elementwise_test.
namespace sangam::cuda_kernels {
namespace {

TEST(ForElementsTest, FindsPlacesInMatricesOfAnySize) {
  constexpr int64_t kLarge = int64_t{1} << 32;
  for (const int64_t cols : {int64_t{1}, int64_t{7}, kLarge - 1, kLarge, 3 * kLarge + 5}) {
    for (const int64_t index : {int64_t{0}, int64_t{1}, int64_t{6}, int64_t{7}, kLarge - 1, kLarge,
                                kLarge + 13, 5 * kLarge}) {
      const Place place = PlaceOf(index, cols);
      EXPECT_EQ(place.row, index / cols) << index << " of " << cols;
      EXPECT_EQ(place.col, index % cols) << index << " of " << cols;
    }
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
