#include "common/flags/wrap.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WrapTest, LinesAreFullButNeverLonger) {
  EXPECT_THAT(WrapWords("aa bb cc", 5), ElementsAre("aa bb", "cc"));
  EXPECT_THAT(WrapWords("aa bb cc", 4), ElementsAre("aa", "bb", "cc"));
  EXPECT_THAT(WrapWords("aa bb cc", 8), ElementsAre("aa bb cc"));
  EXPECT_THAT(WrapWords("  aa   bb ", 80), ElementsAre("aa bb"));
  EXPECT_THAT(WrapWords(" ", 80), IsEmpty());
}

TEST(WrapTest, ALongWordIsALine) {
  EXPECT_THAT(WrapWords("a bbbbbbbb c", 3), ElementsAre("a", "bbbbbbbb", "c"));
}

TEST(WrapTest, CountsCharactersAndNotBytes) {
  EXPECT_EQ(TextWidth("\u00e4\u20ac"), 2u);
  EXPECT_THAT(WrapWords("\u00e4\u00e4 \u00e4\u00e4", 5), ElementsAre("\u00e4\u00e4 \u00e4\u00e4"));
}

TEST(WrapTest, TextHangsBesideItsKey) {
  EXPECT_EQ(HangingText("key", "aa bb cc", 5, 10), "key  aa bb\n     cc\n");
  EXPECT_EQ(HangingText("a longer key", "aa bb", 5, 10), "a longer key aa bb\n");
  EXPECT_EQ(HangingText("", "aa bb", 2, 5), "  aa\n  bb\n");
  EXPECT_EQ(HangingText("key", "", 5, 10), "");
  EXPECT_EQ(HangingText("key", "aa", 9, 3), "key      aa\n");
}

}  // namespace
}  // namespace sangam
