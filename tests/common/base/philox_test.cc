#include "common/base/philox.h"

#include <array>
#include <cstdint>
#include <set>

#include "gtest/gtest.h"

namespace sangam {
namespace {

using Four = std::array<uint32_t, 4>;

// Known answers of the authors' library Random123 (kat_vectors, philox4x32 10 rounds).
TEST(PhiloxTest, GivesThePublishedAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStreamTest, ElementDoesNotDependOnHowItIsAskedFor) {
  const RandomStream stream(7, RandomPurpose::kDropout, 3, 5);
  for (uint64_t element = 0; element < 40; ++element) {
    EXPECT_EQ(stream.At(element), stream.Block(element / 4)[element % 4]);
    EXPECT_EQ(stream.At(element), RandomStream(7, RandomPurpose::kDropout, 3, 5).At(element));
  }
}

TEST(RandomStreamTest, EveryPartOfTheAddressMatters) {
  std::set<uint32_t> seen;
  int drawn = 0;
  const auto draw = [&](uint64_t seed, RandomPurpose purpose, uint64_t major, uint64_t minor,
                        uint64_t element) {
    seen.insert(RandomStream(seed, purpose, major, minor).At(element));
    ++drawn;
  };
  const uint64_t high = uint64_t{1} << 32;
  for (const uint64_t x : {uint64_t{0}, uint64_t{1}, high, high + 1, ~uint64_t{0}}) {
    draw(x, RandomPurpose::kShuffle, 11, 12, 13);
    draw(21, RandomPurpose::kShuffle, x, 12, 13);
    draw(21, RandomPurpose::kShuffle, 11, x, 13);
    draw(21, RandomPurpose::kShuffle, 11, 12, x);
    draw(21, RandomPurpose::kInitialWeights, 11, 12, x);
  }
  EXPECT_EQ(static_cast<int>(seen.size()), drawn);
}

TEST(ToUnitFloatTest, StaysBelowOneAndKeepsOrder) {
  EXPECT_EQ(ToUnitFloat(0), 0.0f);
  EXPECT_EQ(ToUnitFloat(0x80000000u), 0.5f);
  EXPECT_LT(ToUnitFloat(0xffffffffu), 1.0f);
  EXPECT_GT(ToUnitFloat(0xffffffffu), ToUnitFloat(0xfffffeffu));
}

TEST(ToUnitFloatTest, IsUniformInTheMean) {
  const RandomStream stream(1, RandomPurpose::kInitialWeights, 0, 0);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = static_cast<double>(ToUnitFloat(stream.At(i)));
    sum += u;
    squares += u * u;
  }
  // Standard errors are 0.0009 and 0.0009; five of them.
  EXPECT_NEAR(sum / kDraws, 1.0 / 2, 0.005);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.005);
}

}  // namespace
}  // namespace sangam
