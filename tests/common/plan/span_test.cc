#include "common/plan/span.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace sangam {
namespace {

// All nodes of the tree over `span`, the definition written down once more.
void CollectNodes(ShareSpan span, std::vector<ShareSpan>* nodes) {
  nodes->push_back(span);
  if (span.size() < 2) return;
  uint32_t power = 1;
  while (power * 2 < span.size()) power *= 2;
  CollectNodes({span.begin, span.begin + power}, nodes);
  CollectNodes({span.begin + power, span.end}, nodes);
}

bool Listed(const std::vector<ShareSpan>& nodes, ShareSpan span) {
  for (const ShareSpan node : nodes) {
    if (node == span) return true;
  }
  return false;
}

TEST(SpanTest, SplitsAtTheLargestPowerOfTwoBelowTheSize) {
  EXPECT_EQ(SplitPoint({0, 2}), 1u);
  EXPECT_EQ(SplitPoint({0, 3}), 2u);
  EXPECT_EQ(SplitPoint({0, 4}), 2u);
  EXPECT_EQ(SplitPoint({0, 5}), 4u);
  EXPECT_EQ(SplitPoint({0, 8}), 4u);
  EXPECT_EQ(SplitPoint({4, 7}), 6u);
  EXPECT_EQ(SplitPoint({0, 1u << 31}), 1u << 30);
}

TEST(SpanTest, NodesAreExactlyThoseOfTheDefinition) {
  for (uint32_t shares = 1; shares <= 20; ++shares) {
    std::vector<ShareSpan> nodes;
    CollectNodes({0, shares}, &nodes);
    EXPECT_EQ(nodes.size(), 2 * shares - 1);
    for (uint32_t begin = 0; begin <= shares + 1; ++begin) {
      for (uint32_t end = 0; end <= shares + 1; ++end) {
        EXPECT_EQ(IsTreeNode({begin, end}, shares), Listed(nodes, {begin, end}))
            << ToString(ShareSpan{begin, end}) << " of " << shares;
      }
    }
  }
}

TEST(SpanTest, SiblingsMakeTheirParent) {
  for (uint32_t shares = 2; shares <= 20; ++shares) {
    std::vector<ShareSpan> nodes;
    CollectNodes({0, shares}, &nodes);
    for (const ShareSpan node : nodes) {
      if (node == ShareSpan{0, shares}) continue;
      const ShareSpan sibling = SiblingSpan(node, shares);
      const ShareSpan parent = ParentSpan(node, shares);
      EXPECT_TRUE(IsTreeNode(sibling, shares));
      EXPECT_TRUE(IsTreeNode(parent, shares));
      EXPECT_EQ(SiblingSpan(sibling, shares), node);
      EXPECT_EQ(node.size() + sibling.size(), parent.size());
      EXPECT_TRUE(parent.Contains(node) && parent.Contains(sibling));
    }
  }
}

TEST(SpanTest, MaximalSpansCoverTheRangeWithTheFewestNodes) {
  for (uint32_t shares = 1; shares <= 17; ++shares) {
    for (uint32_t begin = 0; begin <= shares; ++begin) {
      for (uint32_t end = begin; end <= shares; ++end) {
        const std::vector<ShareSpan> spans = MaximalSpans({begin, end}, shares);
        uint32_t next = begin;
        for (const ShareSpan span : spans) {
          EXPECT_EQ(span.begin, next);
          EXPECT_TRUE(IsTreeNode(span, shares));
          next = span.end;
          // Maximal: the parent would stick out of the range.
          if (span != ShareSpan{0, shares}) {
            EXPECT_FALSE((ShareSpan{begin, end}.Contains(ParentSpan(span, shares))));
          }
        }
        EXPECT_EQ(next, end);
      }
    }
  }
}

}  // namespace
}  // namespace sangam
