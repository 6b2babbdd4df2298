#include "worker/runtime/precision.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "worker/backend/backends.h"
#include "worker/backend/precision.h"

namespace sangam {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(PrecisionTest, JobsWithoutPrecisionComputeInBinary32) {
  EXPECT_EQ(ToPrecision(v1::PRECISION_UNSPECIFIED), Precision::kFp32);
  EXPECT_EQ(ToPrecision(v1::FP32), Precision::kFp32);
  EXPECT_EQ(ToPrecision(v1::BF16), Precision::kBf16);
  EXPECT_EQ(ToPrecision(v1::TF32), Precision::kTf32);
}

TEST(PrecisionTest, NativePrecisionsAreTheBackends) {
  EXPECT_THAT(NativePrecisions("cpu"), Contains(v1::FP32));
  if (IsNative("cpu", Precision::kBf16)) {
    EXPECT_THAT(NativePrecisions("cpu"), Contains(v1::BF16));
  } else {
    EXPECT_THAT(NativePrecisions("cpu"), Not(Contains(v1::BF16)));
  }
  EXPECT_THAT(NativePrecisions("abacus"), IsEmpty());
}

}  // namespace
}  // namespace sangam
