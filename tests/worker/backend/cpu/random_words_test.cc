#include "worker/backend/cpu/random_words.h"

#include <cstdint>

#include "common/base/philox.h"
#include "gtest/gtest.h"

namespace sangam::cpu_kernels {
namespace {

TEST(RandomWordsTest, AreTheNumbersOfTheStream) {
  const RandomStream stream(0xFEDCBA9876543210, RandomPurpose::kDropout, 5, uint64_t{3} << 32 | 17);
  // The last ones on both sides of where a block's number needs its upper half.
  for (const uint64_t first_block :
       {uint64_t{0}, uint64_t{64}, uint64_t{6400}, (uint64_t{1} << 32) - kRandomBlocks,
        uint64_t{1} << 32, uint64_t{5} << 40}) {
    uint32_t words[kRandomWords];
    RandomWords(stream, first_block, words);
    for (uint64_t e = 0; e < kRandomWords; ++e) {
      ASSERT_EQ(words[e], stream.At(4 * first_block + e)) << first_block << " + " << e;
    }
  }
}

}  // namespace
}  // namespace sangam::cpu_kernels
