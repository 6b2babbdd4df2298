#include "server/core/shortened.h"

#include <string>

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(ShortenedTest, KeepsWhatFits) {
  EXPECT_EQ(Shortened("", 3), "");
  EXPECT_EQ(Shortened("abc", 3), "abc");
}

TEST(ShortenedTest, CutsAndSaysSo) { EXPECT_EQ(Shortened("abcd", 3), "abc..."); }

TEST(ShortenedTest, NeverCutsInsideACharacter) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac";  // a, e with acute, euro sign
  EXPECT_EQ(Shortened(text, 5), "a\xc3\xa9...");
  EXPECT_EQ(Shortened(text, 3), "a\xc3\xa9...");
  EXPECT_EQ(Shortened(text, 2), "a...");
}

}  // namespace
}  // namespace sangam
