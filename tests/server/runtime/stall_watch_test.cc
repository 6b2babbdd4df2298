#include "server/runtime/stall_watch.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

constexpr absl::Duration kLimit = absl::Minutes(10);
constexpr absl::Duration kStart = absl::Hours(5);

TEST(StallWatchTest, SeesAJobThatStandsStillOnce) {
  StallWatch watch(kLimit);
  EXPECT_TRUE(watch.Look({{1, 1, 7}}, kStart).empty());
  EXPECT_TRUE(watch.Look({{1, 1, 7}}, kStart + absl::Minutes(9)).empty());
  const auto stalls = watch.Look({{1, 1, 7}}, kStart + kLimit);
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(stalls[0].job, 1u);
  EXPECT_EQ(stalls[0].since, kLimit);
  EXPECT_TRUE(stalls[0].news);
  EXPECT_FALSE(watch.Look({{1, 1, 7}}, kStart + kLimit + absl::Minutes(1))[0].news);
}

TEST(StallWatchTest, AStepOrANewGenerationIsProgress) {
  StallWatch watch(kLimit);
  watch.Look({{1, 1, 7}, {2, 1, 7}}, kStart);
  EXPECT_TRUE(watch.Look({{1, 1, 8}, {2, 2, 7}}, kStart + kLimit).empty());
  const auto stalls = watch.Look({{1, 1, 8}, {2, 2, 7}}, kStart + 2 * kLimit);
  ASSERT_EQ(stalls.size(), 2u);
  EXPECT_TRUE(stalls[0].news && stalls[1].news);
}

TEST(StallWatchTest, ForgetsJobsThatDoNotRun) {
  StallWatch watch(kLimit);
  watch.Look({{1, 1, 7}}, kStart);
  EXPECT_TRUE(watch.Look({}, kStart + kLimit).empty());
  EXPECT_TRUE(watch.Look({{1, 1, 7}}, kStart + 2 * kLimit).empty());
}

}  // namespace
}  // namespace sangam
