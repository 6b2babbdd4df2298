#include "worker/backend/cuda/philox_device.h"

#include <cstddef>
#include <cstdint>

#include "common/base/philox.h"
#include "gtest/gtest.h"

namespace sangam::cuda_kernels {
namespace {

TEST(PhiloxDeviceTest, GivesTheNumbersOfTheHost) {
  constexpr uint64_t kLarge = 0xFEDCBA9876543210u;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}, kLarge}) {
    for (const uint64_t major : {uint64_t{0}, uint64_t{3}, kLarge - 1}) {
      for (const uint64_t minor : {uint64_t{0}, uint64_t{1}, kLarge - 2}) {
        const RandomStream expected(seed, RandomPurpose::kDropout, major, minor);
        const RandomFamily family =
            MakeRandomFamily(seed, static_cast<uint32_t>(RandomPurpose::kDropout), major);
        const DeviceRandomStream stream = StreamOf(family, minor);
        for (const uint64_t block : {uint64_t{0}, uint64_t{1}, kLarge - 3}) {
          for (size_t i = 0; i < 4; ++i) {
            EXPECT_EQ(stream.Block(block).v[i], expected.Block(block)[i]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
