#include "worker/core/gradient_merge.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/batch_cut.h"
#include "common/plan/span.h"
#include "common/plan/worker_memory.h"
#include "common/tensor/buffer.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

GradientSum MakeSum(const std::vector<float>& values, uint64_t samples) {
  GradientSum sum;
  sum.values = FloatBuffer::Allocate(values.size()).value();
  std::copy(values.begin(), values.end(), sum.values.data());
  sum.samples = samples;
  return sum;
}

// A value whose sums round, so that another order gives other bits.
std::vector<float> ShareValues(uint32_t share) {
  return {1.0f / static_cast<float>(share + 3), 1e6f / static_cast<float>(share + 7)};
}

// The sum over a node as the tree defines it.
std::vector<float> TreeSum(ShareSpan span) {
  if (span.size() == 1) return ShareValues(span.begin);
  const uint32_t split = SplitPoint(span);
  std::vector<float> left = TreeSum({span.begin, split});
  const std::vector<float> right = TreeSum({split, span.end});
  for (size_t e = 0; e < left.size(); ++e) left[e] += right[e];
  return left;
}

TEST(GradientMergeTest, GivesOutMaximalSpansInTheTreesOrderOfSums) {
  std::mt19937 random(1);
  for (uint32_t shares = 1; shares <= 9; ++shares) {
    for (uint32_t workers = 1; workers <= 4; ++workers) {
      for (uint32_t w = 0; w < workers; ++w) {
        const IndexRange part = EvenPart(shares, workers, w);
        if (part.size() == 0) continue;
        const ShareSpan mine{static_cast<uint32_t>(part.begin), static_cast<uint32_t>(part.end)};
        GradientMerge merge(mine, shares);
        // Several steps through the same object, shares in any order.
        for (int step = 0; step < 3; ++step) {
          std::vector<uint32_t> order(mine.size());
          std::iota(order.begin(), order.end(), mine.begin);
          std::shuffle(order.begin(), order.end(), random);
          std::map<ShareSpan, uint64_t> found;
          for (size_t i = 0; i < order.size(); ++i) {
            auto finished = merge.Add(order[i], MakeSum(ShareValues(order[i]), 10 + order[i]));
            ASSERT_TRUE(finished.ok()) << finished.status();
            if (!finished->has_value()) continue;
            const GradientMerge::Finished& out = **finished;
            const std::vector<float> expected = TreeSum(out.span);
            for (size_t e = 0; e < expected.size(); ++e) {
              EXPECT_EQ(out.sum.values.data()[e], expected[e]) << ToString(out.span);
            }
            EXPECT_EQ(out.last, i + 1 == order.size());
            found[out.span] = out.sum.samples;
          }
          const std::vector<ShareSpan> maximal = MaximalSpans(mine, shares);
          ASSERT_EQ(found.size(), maximal.size());
          for (const ShareSpan span : maximal) {
            uint64_t samples = 0;
            for (uint32_t s = span.begin; s < span.end; ++s) samples += 10 + s;
            EXPECT_EQ(found.at(span), samples);
          }
        }
      }
    }
  }
}

TEST(GradientMergeTest, SumsInTheLeftBufferAndLetsGoOfTheRightOne) {
  GradientMerge merge({0, 2}, 2);
  GradientSum left = MakeSum({1, 2}, 3);
  const float* left_data = left.values.data();
  GradientSum right = MakeSum({10, 20}, 4);
  const FloatBuffer watch = right.values;
  ASSERT_TRUE(merge.Add(1, std::move(right)).ok());
  const auto finished = merge.Add(0, std::move(left));
  ASSERT_TRUE(finished.ok() && finished->has_value());
  EXPECT_EQ((*finished)->sum.values.data(), left_data);
  EXPECT_EQ((*finished)->sum.values.data()[1], 22);
  EXPECT_EQ((*finished)->sum.samples, 7);
  EXPECT_TRUE(watch.unique());
}

TEST(GradientMergeTest, RefusesSharesOfOthersAndSharesThatComeTwice) {
  GradientMerge merge({2, 4}, 8);
  EXPECT_EQ(merge.Add(1, MakeSum({1}, 1)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(merge.Add(4, MakeSum({1}, 1)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(merge.Add(2, MakeSum({1}, 1)).ok());
  EXPECT_EQ(merge.Add(2, MakeSum({1}, 1)).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST(GradientMergeTest, TakesSumsOfSeveralSharesAsTheTreeHasThem) {
  GradientMerge merge({0, 4}, 4);
  for (int step = 0; step < 2; ++step) {
    EXPECT_FALSE((*merge.Add(ShareSpan{2, 4}, MakeSum({3}, 5))).has_value());
    EXPECT_EQ(merge.Add(3, MakeSum({1}, 1)).status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_FALSE((*merge.Add(0, MakeSum({1}, 1))).has_value());
    const auto finished = merge.Add(1, MakeSum({1}, 2));
    ASSERT_TRUE(finished.ok() && finished->has_value());
    EXPECT_EQ((*finished)->span, (ShareSpan{0, 4}));
    EXPECT_EQ((*finished)->sum.samples, 8);
    EXPECT_TRUE((*finished)->last);
  }
  EXPECT_EQ(merge.Add(ShareSpan{1, 3}, MakeSum({1}, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(merge.Add(ShareSpan{1, 1}, MakeSum({1}, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GradientMergeTest, RefusesToAddDifferentLengths) {
  GradientMerge merge({0, 2}, 2);
  EXPECT_TRUE(merge.Add(0, MakeSum({1}, 1)).ok());
  EXPECT_EQ(merge.Add(1, MakeSum({1, 2}, 1)).status().code(), absl::StatusCode::kInvalidArgument);
}

// Lanes go through consecutive runs of shares at any speed; the bound holds at every moment.
TEST(GradientMergeTest, NeverHoldsMoreThanThePlannersCount) {
  std::mt19937 random(2);
  for (uint32_t shares = 1; shares <= 40; ++shares) {
    for (uint32_t lanes = 1; lanes <= std::min(shares, 4u); ++lanes) {
      const ShareSpan mine{shares / 5, shares};
      if (mine.size() < lanes) continue;
      GradientMerge merge(mine, shares);
      // Without those that are being computed or with the link.
      const uint64_t bound =
          GradientBuffers(mine, shares, lanes) - lanes - 2 * MaximalSpans(mine, shares).size();
      std::vector<IndexRange> left;
      for (uint32_t l = 0; l < lanes; ++l) left.push_back(EvenPart(mine.size(), lanes, l));
      std::vector<FloatBuffer> all;
      std::vector<FloatBuffer> given_out;
      for (uint32_t i = 0; i < mine.size(); ++i) {
        uint32_t lane = random() % lanes;
        while (left[lane].size() == 0) lane = (lane + 1) % lanes;
        const uint32_t share = mine.begin + static_cast<uint32_t>(left[lane].begin++);
        GradientSum sum = MakeSum({1}, 1);
        all.push_back(sum.values);
        const auto finished = merge.Add(share, std::move(sum));
        ASSERT_TRUE(finished.ok());
        if (finished->has_value()) given_out.push_back((*finished)->sum.values);
        const size_t held = static_cast<size_t>(
            std::count_if(all.begin(), all.end(), [](const auto& b) { return !b.unique(); }));
        ASSERT_LE(held - given_out.size(), bound);
      }
    }
  }
}

}  // namespace
}  // namespace sangam
