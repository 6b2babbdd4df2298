#include "client/table.h"

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(TableTest, AlignsColumns) {
  EXPECT_EQ(FormatTable({{"JOB", true}, {"NAME"}, {"LOSS", true}},
                        {{"1", "a", "0.5"}, {"1234", "longer", "10.25"}}),
            " JOB  NAME     LOSS\n"
            "   1  a         0.5\n"
            "1234  longer  10.25\n");
}

TEST(TableTest, LeavesNoBlanksAtTheEnd) {
  EXPECT_EQ(FormatTable({{"A"}, {"B"}}, {{"x", ""}, {"y", "long"}}), "A  B\nx\ny  long\n");
}

TEST(TableTest, BearsMissingAndSurplusCells) {
  EXPECT_EQ(FormatTable({{"A"}, {"B"}}, {{}, {"1", "2", "3"}}), "A  B\n\n1  2\n");
  EXPECT_EQ(FormatTable({{"A"}}, {}), "A\n");
}

TEST(TableTest, CountsCharactersNotBytes) {
  EXPECT_EQ(FormatTable({{"A"}, {"B"}}, {{"\xc3\xa4\xc3\xb6", "x"}, {"ab", "y"}}),
            "A   B\n\xc3\xa4\xc3\xb6  x\nab  y\n");
}

}  // namespace
}  // namespace sangam
