#include "server/core/parked_sum.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "common/plan/span.h"
#include "common/plan/span_tree.h"
#include "common/tensor/slices.h"
#include "gtest/gtest.h"
#include "server/core/vector_kernels.h"
#include "tests/server/core/naive_merge.h"

namespace sangam {
namespace {

using ParkedTree = SpanTree<ParkedSum, MergeParked>;

std::vector<float> Divided(std::vector<float> values, float divisor) {
  for (float& value : values) value = value / divisor;
  return values;
}

std::vector<float> MeanOf(const ParkedSum& sum, size_t size, float divisor,
                          const VectorKernels& kernels) {
  std::vector<float> out(size, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(sum.Mean(size, divisor, out.data(), kernels));
  return out;
}

TEST(ParkedSumTest, OneGradientIsDivided) {
  std::mt19937 random(1);
  for (size_t size : {1, 15, 16, 1023, 1025, 3000}) {
    const std::vector<float> values = RandomFloats(size, &random);
    const ParkedSum sum({{0, 1}, 5, RandomPieces(values, &random)});
    EXPECT_TRUE(SameBits(MeanOf(sum, size, 5, FastestKernels()), Divided(values, 5)));
  }
}

TEST(ParkedSumTest, SamplesAddUp) {
  const SlicePayload elements = OnePiece({1});
  ParkedSum sum = ParkedSum::Merge(ParkedSum({{0, 1}, 3, elements}),
                                   ParkedSum({{1, 2}, uint64_t{1} << 31, elements}));
  EXPECT_EQ(sum.samples(), (uint64_t{1} << 31) + 3);
}

// (a + b) + (c + d) differs from ((a + b) + c) + d here.
TEST(ParkedSumTest, BracketsStandAsTheyWereWritten) {
  const auto leaf = [](uint32_t share, float value) {
    return ParkedSum({{share, share + 1}, 1, OnePiece({value})});
  };
  const ParkedSum balanced = ParkedSum::Merge(ParkedSum::Merge(leaf(0, 1e8f), leaf(1, 1)),
                                              ParkedSum::Merge(leaf(2, 3), leaf(3, 3)));
  const ParkedSum chain = ParkedSum::Merge(
      ParkedSum::Merge(ParkedSum::Merge(leaf(0, 1e8f), leaf(1, 1)), leaf(2, 3)), leaf(3, 3));
  const ParkedSum right = ParkedSum::Merge(
      leaf(0, 1e8f), ParkedSum::Merge(leaf(1, 1), ParkedSum::Merge(leaf(2, 3), leaf(3, 3))));
  EXPECT_EQ(MeanOf(balanced, 1, 1, FastestKernels())[0], 1e8f + 8);
  EXPECT_EQ(MeanOf(chain, 1, 1, FastestKernels())[0], 1e8f);
  EXPECT_EQ(MeanOf(right, 1, 1, FastestKernels())[0], (1e8f + 7));
}

// The heart of "one job, one result": however the shares were grouped, in whatever order they came
// and however the bytes were cut, the sum has the bits of the plain recursion.
TEST(ParkedSumTest, AnyGroupingInAnyOrderHasTheBitsOfThePlainRecursion) {
  std::mt19937 random(2);
  for (const VectorKernels* kernels : SupportedKernels()) {
    for (uint32_t shares = 1; shares <= 17; ++shares) {
      for (size_t size : {1, 15, 16, 1023, 1025, 2500}) {
        const auto gradients = RandomShares(shares, size, &random);
        const std::vector<float> expected = Divided(NaiveSum(gradients, {0, shares}), 77);
        for (int round = 0; round < 3; ++round) {
          ParkedTree tree(shares, MergeParked());
          for (ShareSpan span : RandomGrouping({0, shares}, &random)) {
            const std::vector<float> part = NaiveSum(gradients, span);
            ASSERT_TRUE(tree.Add(span, ParkedSum({span, 1, RandomPieces(part, &random)})).ok());
          }
          const std::optional<ParkedSum> sum = tree.TakeRoot();
          ASSERT_TRUE(sum.has_value());
          ASSERT_TRUE(SameBits(MeanOf(*sum, size, 77, *kernels), expected))
              << kernels->name << " S=" << shares << " size=" << size;
        }
      }
    }
  }
}

TEST(ParkedSumTest, ManySharesAllFromTheRight) {
  std::mt19937 random(3);
  constexpr uint32_t kShares = 1023;  // ten levels of right children
  const auto gradients = RandomShares(kShares, 3, &random);
  ParkedTree tree(kShares, MergeParked());
  for (uint32_t s = kShares; s-- > 0;) {
    const ShareSpan span = {s, s + 1};
    ASSERT_TRUE(tree.Add(span, ParkedSum({span, 1, OnePiece(gradients[s])})).ok());
  }
  EXPECT_TRUE(SameBits(MeanOf(*tree.TakeRoot(), 3, 1, FastestKernels()),
                       NaiveSum(gradients, {0, kShares})));
}

// As deep as it gets: what stands in front of the deepest tree waits for it.
TEST(ParkedSumTest, ASumInFrontOfTheDeepestBracketsFits) {
  constexpr uint32_t kDepth = 33;
  ParkedSum deep({{kDepth, kDepth + 1}, 1, OnePiece({1})});
  for (uint32_t s = kDepth; s-- > 1;) {
    deep = ParkedSum::Merge(ParkedSum({{s, s + 1}, 1, OnePiece({1})}), std::move(deep));
  }
  const ParkedSum sum = ParkedSum::Merge(ParkedSum({{0, 1}, 1, OnePiece({2})}), std::move(deep));
  EXPECT_EQ(MeanOf(sum, 1, 1, FastestKernels())[0], 2 + kDepth);
}

TEST(ParkedSumTest, NamesTheSpansThatAreNotFinite) {
  std::mt19937 random(4);
  std::vector<float> good(2000, 1);
  std::vector<float> nan = good;
  nan[1999] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> infinite = good;
  infinite[0] = -std::numeric_limits<float>::infinity();
  const ParkedSum left = ParkedSum::Merge(ParkedSum({{0, 1}, 1, RandomPieces(good, &random)}),
                                          ParkedSum({{1, 2}, 1, RandomPieces(nan, &random)}));
  const ParkedSum right = ParkedSum::Merge(ParkedSum({{2, 3}, 1, RandomPieces(infinite, &random)}),
                                           ParkedSum({{3, 4}, 1, RandomPieces(good, &random)}));
  const ParkedSum sum = ParkedSum::Merge(left, right);
  std::vector<float> out(2000);
  EXPECT_FALSE(sum.Mean(2000, 4, out.data(), FastestKernels()));
  const std::vector<const ParkedGradient*> found = sum.NonFinite();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]->span, (ShareSpan{1, 2}));
  EXPECT_EQ(found[1]->span, (ShareSpan{2, 3}));
}

TEST(ParkedSumTest, OneBadElementIsFoundInWhicheverTileItLies) {
  constexpr size_t kSize = 3000;
  for (size_t place : {0, 1000, 1500, 2999}) {
    std::vector<float> values(kSize, 1);
    values[place] = std::numeric_limits<float>::infinity();
    const ParkedSum sum({{0, 1}, 1, OnePiece(values)});
    std::vector<float> out(kSize);
    EXPECT_FALSE(sum.Mean(kSize, 1, out.data(), FastestKernels())) << place;
  }
}

TEST(ParkedSumTest, OverflowIsFoundThoughEveryPayloadIsFinite) {
  const ParkedSum sum = ParkedSum::Merge(ParkedSum({{0, 1}, 1, OnePiece({3e38f})}),
                                         ParkedSum({{1, 2}, 1, OnePiece({3e38f})}));
  float out = 0;
  EXPECT_FALSE(sum.Mean(1, 2, &out, FastestKernels()));
  EXPECT_TRUE(sum.NonFinite().empty());
}

TEST(ParkedSumTest, HoldsTheSlicesUntilItEnds) {
  SlicePayload elements = OnePiece({1, 2, 3});
  const std::weak_ptr<const void> alive = elements.owner();
  {
    const ParkedSum sum({{0, 1}, 1, std::move(elements)});
    elements = SlicePayload();
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace sangam
