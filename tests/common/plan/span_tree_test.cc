#include "common/plan/span_tree.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/plan/span.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

// Writes down in which order things were merged: the sharpest oracle there is for a sum's bits.
struct Join {
  absl::StatusOr<std::string> operator()(std::string left, std::string right) const {
    return absl::StrCat("(", left, "+", right, ")");
  }
};
using TextTree = SpanTree<std::string, Join>;

std::string Expected(ShareSpan span) {
  if (span.size() == 1) return absl::StrCat(span.begin);
  const uint32_t split = SplitPoint(span);
  return absl::StrCat("(", Expected({span.begin, split}), "+", Expected({split, span.end}), ")");
}

TEST(SpanTreeTest, OneShareIsItsOwnSum) {
  TextTree tree(1, Join());
  ASSERT_TRUE(tree.Add({0, 1}, "0").ok());
  EXPECT_EQ(tree.TakeRoot(), "0");
  EXPECT_EQ(tree.TakeRoot(), std::nullopt);
}

TEST(SpanTreeTest, MergesOnlySiblings) {
  TextTree tree(4, Join());
  ASSERT_TRUE(tree.Add({1, 2}, "1").ok());
  ASSERT_TRUE(tree.Add({2, 3}, "2").ok());
  EXPECT_EQ(tree.nodes().size(), 2u);
  ASSERT_TRUE(tree.Add({0, 1}, "0").ok());
  EXPECT_EQ(tree.Take({0, 2}), "(0+1)");
}

// Any grouping of the shares into nodes, in any order, with repetitions: the same expression.
TEST(SpanTreeTest, OrderAndGroupingDoNotChangeTheSum) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const uint32_t shares = 1 + random() % 17;
    // A random way to hand out the shares to workers, each sending its maximal spans.
    std::vector<ShareSpan> spans;
    for (uint32_t begin = 0; begin < shares;) {
      const uint32_t end = begin + 1 + random() % (shares - begin);
      for (const ShareSpan span : MaximalSpans({begin, end}, shares)) spans.push_back(span);
      begin = end;
    }
    const size_t distinct = spans.size();
    for (size_t i = 0; i < distinct; ++i) {
      if (random() % 3 == 0) spans.push_back(spans[i]);
    }
    std::shuffle(spans.begin(), spans.end(), random);

    TextTree tree(shares, Join());
    size_t added = 0;
    for (const ShareSpan span : spans) {
      const auto result = tree.Add(span, Expected(span));
      ASSERT_TRUE(result.ok());
      if (*result == TextTree::Result::kAdded) ++added;
    }
    EXPECT_EQ(added, distinct);
    EXPECT_EQ(tree.TakeRoot(), Expected({0, shares})) << shares << " shares, trial " << trial;
  }
}

TEST(SpanTreeTest, LargerSpanReplacesItsParts) {
  TextTree tree(4, Join());
  ASSERT_TRUE(tree.Add({1, 2}, "part").ok());
  ASSERT_TRUE(tree.Add({2, 3}, "2").ok());
  const auto result = tree.Add({0, 2}, "whole");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, TextTree::Result::kAdded);
  ASSERT_TRUE(tree.Add({3, 4}, "3").ok());
  EXPECT_EQ(tree.TakeRoot(), "(whole+(2+3))");
}

TEST(SpanTreeTest, CoveredSpanChangesNothing) {
  TextTree tree(4, Join());
  ASSERT_TRUE(tree.Add({0, 2}, "first").ok());
  for (const ShareSpan again : {ShareSpan{0, 2}, ShareSpan{0, 1}, ShareSpan{1, 2}}) {
    const auto result = tree.Add(again, "again");
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(*result, TextTree::Result::kCovered);
  }
  EXPECT_EQ(tree.Take({0, 2}), "first");
}

TEST(SpanTreeTest, RefusesWhatIsNoNode) {
  TextTree tree(5, Join());
  for (const ShareSpan span :
       {ShareSpan{1, 3}, ShareSpan{0, 6}, ShareSpan{2, 2}, ShareSpan{3, 1}, ShareSpan{5, 6}}) {
    const auto result = tree.Add(span, "x");
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << ToString(span);
  }
  EXPECT_TRUE(tree.nodes().empty());
}

TEST(SpanTreeTest, ReportsAFailedMerge) {
  const auto fail = [](int, int) -> absl::StatusOr<int> {
    return absl::ResourceExhaustedError("no buffer");
  };
  SpanTree<int, decltype(fail)> tree(2, fail);
  ASSERT_TRUE(tree.Add({0, 1}, 1).ok());
  EXPECT_EQ(tree.Add({1, 2}, 2).status(), absl::ResourceExhaustedError("no buffer"));
}

}  // namespace
}  // namespace sangam
