#include "common/base/log_repeats.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

constexpr absl::Duration kNow = absl::Seconds(100);

LogRepeats::Options Few() {
  LogRepeats::Options options;
  options.written = 2;
  options.lines = 3;
  return options;
}

TEST(LogRepeatsTest, CountsWhatComesAgain) {
  LogRepeats repeats(Few());
  EXPECT_TRUE(repeats.Take(1, "lost", "peer=a", kNow));
  EXPECT_TRUE(repeats.Take(1, "lost", "peer=a", kNow));
  for (int i = 0; i < 312; ++i) EXPECT_FALSE(repeats.Take(1, "lost", "peer=a", kNow));
  EXPECT_TRUE(repeats.TakeHeld(kNow + absl::Seconds(9)).empty());
  const std::vector<LogRepeats::Held> held = repeats.TakeHeld(kNow + absl::Seconds(10));
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].event, "lost");
  EXPECT_EQ(held[0].fields, "peer=a");
  EXPECT_EQ(held[0].level, 1);
  EXPECT_EQ(held[0].times, 312u);
  EXPECT_TRUE(repeats.TakeHeld(kNow + absl::Hours(1)).empty());
  EXPECT_TRUE(repeats.Take(1, "lost", "peer=a", kNow + absl::Seconds(10)));
}

TEST(LogRepeatsTest, OtherLinesAreOtherLines) {
  LogRepeats repeats(Few());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(repeats.Take(1, "lost", "peer=a", kNow));
    EXPECT_TRUE(repeats.Take(1, "lost", "peer=b", kNow));
    EXPECT_TRUE(repeats.Take(2, "lost", "peer=a", kNow));
  }
  EXPECT_FALSE(repeats.Take(1, "lost", "peer=a", kNow));
}

TEST(LogRepeatsTest, RemembersFewButLosesNoCount) {
  LogRepeats repeats(Few());
  for (int i = 0; i < 5; ++i) repeats.Take(1, "first", "", kNow);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(repeats.Take(1, absl::StrCat("other ", i), "", kNow));
  const std::vector<LogRepeats::Held> held = repeats.TakeHeld(kNow);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].times, 3u);
}

}  // namespace
}  // namespace sangam
