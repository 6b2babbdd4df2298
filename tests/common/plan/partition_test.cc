#include "common/plan/partition.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/base/philox.h"
#include "common/plan/page_map.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

constexpr uint64_t kPage = 1000;

// Elements on each server; checks that every page of every segment has one.
std::vector<uint64_t> Loads(const std::vector<uint64_t>& segments, uint32_t servers) {
  const auto placement = PlacePages(segments, kPage, servers);
  EXPECT_EQ(placement.size(), segments.size());
  std::vector<uint64_t> loads(servers);
  for (size_t s = 0; s < segments.size(); ++s) {
    EXPECT_EQ(placement[s].size(), NumPages(segments[s], kPage));
    for (uint64_t p = 0; p < placement[s].size(); ++p) {
      EXPECT_LT(placement[s][p], servers);
      loads[placement[s][p]] += std::min(kPage, segments[s] - p * kPage);
    }
  }
  return loads;
}

TEST(PartitionTest, OneServerHoldsEverything) {
  EXPECT_EQ(Loads({1, 999, 1000, 1001, 5500}, 1), (std::vector<uint64_t>{8501}));
}

TEST(PartitionTest, PagesOfOneSegmentSpreadOverAllServers) {
  EXPECT_EQ(PlacePages({4 * kPage + 1}, kPage, 2)[0], (std::vector<uint32_t>{0, 1, 0, 1, 0}));
}

TEST(PartitionTest, MoreServersThanPagesLeavesSomeEmpty) {
  EXPECT_EQ(Loads({1500}, 4), (std::vector<uint64_t>{1000, 500, 0, 0}));
}

TEST(PartitionTest, SmallTailsFillTheGaps) {
  // Round robin by segment would give one server all full pages.
  EXPECT_EQ(Loads({1000, 10, 1000, 10, 1000, 10, 1000, 10}, 2),
            (std::vector<uint64_t>{2020, 2020}));
}

TEST(PartitionTest, LargePagesArePlacedFirst) {
  EXPECT_EQ(Loads({500, 500, 1000}, 2), (std::vector<uint64_t>{1000, 1000}));
}

TEST(PartitionTest, SameArgumentsSamePlacement) {
  const std::vector<uint64_t> segments = {12345, 77, 9000, 1000, 1, 4321};
  EXPECT_EQ(PlacePages(segments, kPage, 3), PlacePages(segments, kPage, 3));
}

TEST(PartitionTest, BalancedForAnyMixOfSizes) {
  int with_enough = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const RandomStream random(seed, RandomPurpose::kShuffle, 0, 0);
    const uint32_t servers = 1 + random.At(0) % 16;
    std::vector<uint64_t> segments(1 + random.At(1) % 60);
    // Mixes of tiny, page-sized and large segments.
    const uint64_t largest = std::vector<uint64_t>{5, 1500, 40'000}[random.At(2) % 3];
    for (size_t s = 0; s < segments.size(); ++s) segments[s] = 1 + random.At(3 + s) % largest;
    const std::vector<uint64_t> loads = Loads(segments, servers);
    const uint64_t most = *std::max_element(loads.begin(), loads.end());
    const uint64_t least = *std::min_element(loads.begin(), loads.end());
    ASSERT_LE(most - least, kPage) << "seed " << seed;
    const uint64_t total = std::accumulate(segments.begin(), segments.end(), uint64_t{0});
    if (total < uint64_t{10} * servers * kPage) continue;
    ++with_enough;
    const double mean = static_cast<double>(total) / servers;
    ASSERT_LE(static_cast<double>(most) / mean, 1.10) << "seed " << seed;
  }
  EXPECT_GT(with_enough, 200);
}

}  // namespace
}  // namespace sangam
