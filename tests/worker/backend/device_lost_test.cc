#include "worker/backend/device_lost.h"

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(DeviceLostTest, IsKnownHoweverManyAddContext) {
  const absl::Status lost = DeviceLost("cuda: Gemm: an illegal memory access");
  EXPECT_EQ(lost.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(IsDeviceLost(lost));
  const absl::Status told = WithContext(WithContext(lost, "block 2"), "step 7");
  EXPECT_TRUE(IsDeviceLost(told));
  EXPECT_EQ(told.message(), "step 7: block 2: cuda: Gemm: an illegal memory access");
}

TEST(DeviceLostTest, OtherErrorsAreNot) {
  EXPECT_FALSE(IsDeviceLost(absl::OkStatus()));
  EXPECT_FALSE(IsDeviceLost(absl::InternalError("cuda: Gemm: an illegal memory access")));
}

}  // namespace
}  // namespace sangam
