#include "common/base/suggestion.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace sangam {
namespace {

const std::vector<std::string> kVerbs = {"submit", "list", "describe", "watch", "cancel"};

TEST(SuggestionTest, FindsTypingErrors) {
  EXPECT_EQ(ClosestMatch("submt", kVerbs), "submit");    // left out
  EXPECT_EQ(ClosestMatch("submmit", kVerbs), "submit");  // too much
  EXPECT_EQ(ClosestMatch("sabmit", kVerbs), "submit");   // replaced
  EXPECT_EQ(ClosestMatch("usbmit", kVerbs), "submit");   // swapped
  EXPECT_EQ(ClosestMatch("lsit", kVerbs), "list");
}

TEST(SuggestionTest, FindsWordsCutShort) {
  EXPECT_EQ(ClosestMatch("desc", kVerbs), "describe");
  EXPECT_EQ(ClosestMatch("de", kVerbs), "");
}

TEST(SuggestionTest, SuggestsNothingFarAway) {
  EXPECT_EQ(ClosestMatch("frobnicate", kVerbs), "");
  EXPECT_EQ(ClosestMatch("", kVerbs), "");
  EXPECT_EQ(ClosestMatch("list", {}), "");
  EXPECT_EQ(ClosestMatch(std::string(100'000, 'x'), kVerbs), "");
}

TEST(SuggestionTest, TakesTheNearestAndThenTheFirst) {
  EXPECT_EQ(ClosestMatch("bat", {"cat", "bath", "bat"}), "bat");
  EXPECT_EQ(ClosestMatch("bat", {"cat", "hat"}), "cat");
}

TEST(SuggestionTest, AsksOnlyWithASuggestion) {
  EXPECT_EQ(DidYouMean("lst", kVerbs), "; did you mean 'list'?");
  EXPECT_EQ(DidYouMean("frobnicate", kVerbs), "");
}

}  // namespace
}  // namespace sangam
