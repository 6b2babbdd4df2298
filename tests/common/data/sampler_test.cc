#include "common/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace sangam {
namespace {

std::vector<uint64_t> Order(const Sampler& sampler) {
  std::vector<uint64_t> order;
  for (uint64_t p = 0; p < sampler.num_samples(); ++p) order.push_back(sampler.SampleAt(p));
  return order;
}

bool IsPermutation(std::vector<uint64_t> order) {
  std::sort(order.begin(), order.end());
  for (uint64_t i = 0; i < order.size(); ++i) {
    if (order[i] != i) return false;
  }
  return true;
}

TEST(SamplerTest, IsAPermutationOfAnyNumberOfSamples) {
  for (uint64_t n = 1; n <= 2000; ++n) {
    EXPECT_TRUE(IsPermutation(Order(Sampler::Shuffled(1234, n % 5, n)))) << n;
  }
  for (const uint64_t n : {65535, 65536, 65537, 100000, 250001}) {
    EXPECT_TRUE(IsPermutation(Order(Sampler::Shuffled(9, 3, n)))) << n;
  }
}

TEST(SamplerTest, StaysInRangeAndInjectiveOverHugeDomains) {
  for (const uint64_t n : {uint64_t{1} << 32, (uint64_t{1} << 40) + 12345,
                           std::numeric_limits<uint64_t>::max() / 2 + 77}) {
    const Sampler sampler = Sampler::Shuffled(5, 6, n);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < 1000; ++i) {
      const uint64_t position = i < 500 ? i : n - i;
      const uint64_t sample = sampler.SampleAt(position);
      EXPECT_LT(sample, n);
      EXPECT_TRUE(seen.insert(sample).second);
    }
  }
}

TEST(SamplerTest, DependsOnSeedAndEpochAlone) {
  const std::vector<uint64_t> order = Order(Sampler::Shuffled(1, 0, 1000));
  EXPECT_EQ(order, Order(Sampler::Shuffled(1, 0, 1000)));
  EXPECT_NE(order, Order(Sampler::Shuffled(2, 0, 1000)));
  EXPECT_NE(order, Order(Sampler::Shuffled(1, 1, 1000)));
}

// Part of the promise "one job, one result": a change of this order changes every model trained.
TEST(SamplerTest, OrderNeverChangesBetweenVersions) {
  EXPECT_EQ(Order(Sampler::Shuffled(7, 2, 8)), (std::vector<uint64_t>{1, 5, 4, 7, 3, 0, 6, 2}));
  const Sampler sampler = Sampler::Shuffled(7, 2, 60000);
  const std::vector<uint64_t> expected = {43271, 41950, 22863, 7824, 13009, 18261};
  for (uint64_t p = 0; p < expected.size(); ++p) EXPECT_EQ(sampler.SampleAt(p), expected[p]);
}

TEST(SamplerTest, InOrderIsTheIdentity) {
  const Sampler sampler = Sampler::InOrder(10);
  for (uint64_t p = 0; p < 10; ++p) EXPECT_EQ(sampler.SampleAt(p), p);
}

// Sum of (observed - expected)^2 / expected over equally likely outcomes.
double ChiSquare(const std::vector<uint64_t>& observed, double expected) {
  double sum = 0;
  for (const uint64_t count : observed) {
    sum += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected) /
           expected;
  }
  return sum;
}

// With k degrees of freedom the statistic has mean k and variance 2k; five deviations are far
// beyond chance, and the seeds are fixed, so this never fails by bad luck.
double Bound(double degrees) { return degrees + 5 * std::sqrt(2 * degrees); }

TEST(SamplerTest, AllOrdersOfFewSamplesAreEquallyLikely) {
  for (const uint64_t n : {2, 3, 4, 5, 6}) {
    std::map<std::vector<uint64_t>, uint64_t> count;
    uint64_t orders = 1;
    for (uint64_t i = 2; i <= n; ++i) orders *= i;
    const uint64_t tries = 400 * orders;
    for (uint64_t seed = 0; seed < tries; ++seed) ++count[Order(Sampler::Shuffled(seed, 1, n))];
    EXPECT_EQ(count.size(), orders) << n;
    std::vector<uint64_t> observed;
    for (const auto& [order, times] : count) observed.push_back(times);
    EXPECT_LT(ChiSquare(observed, 400), Bound(static_cast<double>(orders - 1))) << n;
  }
}

TEST(SamplerTest, EverySampleIsEquallyLikelyAtEveryPosition) {
  constexpr uint64_t kSamples = 60;
  constexpr uint64_t kSeeds = 6000;
  std::vector<uint64_t> observed(kSamples * kSamples);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Sampler sampler = Sampler::Shuffled(seed, 0, kSamples);
    for (uint64_t p = 0; p < kSamples; ++p) ++observed[p * kSamples + sampler.SampleAt(p)];
  }
  EXPECT_LT(ChiSquare(observed, kSeeds / static_cast<double>(kSamples)),
            Bound((kSamples - 1) * (kSamples - 1)));
}

TEST(SamplerTest, NeighboursAreScattered) {
  // Differences of neighbours, folded to [0, n), fall evenly into ten bins.
  constexpr uint64_t kSamples = 50000;
  const Sampler sampler = Sampler::Shuffled(3, 4, kSamples);
  std::vector<uint64_t> observed(10);
  for (uint64_t p = 0; p + 1 < kSamples; ++p) {
    const uint64_t difference =
        (sampler.SampleAt(p + 1) + kSamples - sampler.SampleAt(p)) % kSamples;
    ++observed[difference * 10 / kSamples];
  }
  EXPECT_LT(ChiSquare(observed, (kSamples - 1) / 10.0), Bound(9));
}

}  // namespace
}  // namespace sangam
