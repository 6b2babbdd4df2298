#include "common/base/readiness.h"

#include <thread>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(ReadinessTest, StartsAndSaysWhyNot) {
  Readiness readiness;
  EXPECT_EQ(readiness.state().reason, "starting");
  readiness.SetReady();
  EXPECT_TRUE(readiness.state().ready());
  const uint64_t revision = readiness.state().revision;
  readiness.SetReady();
  EXPECT_EQ(readiness.state().revision, revision);
  readiness.SetNotReady("draining");
  EXPECT_FALSE(readiness.state().ready());
  EXPECT_GT(readiness.state().revision, revision);
}

TEST(ReadinessTest, WaitsForAChange) {
  Readiness readiness;
  const uint64_t seen = readiness.state().revision;
  EXPECT_EQ(readiness.WaitForChange(seen, absl::Milliseconds(1)).revision, seen);
  std::thread other([&readiness] { readiness.SetReady(); });
  EXPECT_TRUE(readiness.WaitForChange(seen, absl::Seconds(20)).ready());
  other.join();
}

}  // namespace
}  // namespace sangam
