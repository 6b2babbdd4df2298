#include "worker/backend/cuda/device.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(CudaDeviceTest, SaysWhatItIs) {
  const auto device = OpenCudaDevice(0);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_NE(device->facts.name, "");
  EXPECT_GT(device->facts.memory_bytes, 0u);
  EXPECT_THAT(device->facts.compute_capability, MatchesRegex("[0-9]+\\.[0-9]+"));
  EXPECT_GE(device->compute_major, 8);
  EXPECT_EQ(device->facts.runtime, "13.0");
  EXPECT_THAT(device->facts.driver, MatchesRegex("[0-9]+\\.[0-9]+"));
}

TEST(CudaDeviceTest, ADeviceThatIsNotThereIsAnError) {
  for (const int number : {-1, 99}) {
    const absl::Status status = OpenCudaDevice(number).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("cuda device " + std::to_string(number) + " cannot be used"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("1 devices"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("nvidia-smi"));
  }
}

}  // namespace
}  // namespace sangam
