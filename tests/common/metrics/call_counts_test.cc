#include "common/metrics/call_counts.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(CallCountsTest, CountsByMethodCodeAndTime) {
  CallCounts counts;
  counts.Add("/sangam.v1.JobService/GetJob", "OK", absl::Milliseconds(2));
  counts.Add("/sangam.v1.JobService/GetJob", "NOT_FOUND", absl::Hours(1));
  const CallCounts::Method method = counts.Methods().at("sangam.v1.JobService/GetJob");
  EXPECT_EQ(method.calls, 2u);
  EXPECT_EQ(method.codes.at("OK"), 1u);
  EXPECT_EQ(method.codes.at("NOT_FOUND"), 1u);
  EXPECT_EQ(method.times[2], 1u);      // up to 2.5 ms
  EXPECT_EQ(method.times.back(), 1u);  // above all
  EXPECT_NEAR(method.seconds, 3600.002, 1e-9);
}

TEST(CallCountsTest, IsBounded) {
  CallCounts counts;
  for (int i = 0; i < 10000; ++i) counts.Add(absl::StrCat("/m/", i), "OK", absl::Seconds(1));
  EXPECT_EQ(counts.Methods().size(), CallCounts::kMaxMethods + 1);
  EXPECT_EQ(counts.Methods().at("other").calls, 10000 - CallCounts::kMaxMethods);
}

}  // namespace
}  // namespace sangam
