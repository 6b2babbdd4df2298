#include "tests/server/core/naive_merge.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/plan/span.h"
#include "common/tensor/slices.h"

namespace sangam {

std::vector<float> NaiveSum(const std::vector<std::vector<float>>& shares, ShareSpan span) {
  if (span.size() == 1) return shares[span.begin];
  uint32_t half = 1;
  while (half * 2 < span.size()) half *= 2;
  const std::vector<float> left = NaiveSum(shares, {span.begin, span.begin + half});
  const std::vector<float> right = NaiveSum(shares, {span.begin + half, span.end});
  std::vector<float> sum(left.size());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] = left[i] + right[i];
  return sum;
}

std::vector<float> RandomFloats(size_t size, std::mt19937* random) {
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-12, 4);
  std::vector<float> values(size);
  for (float& value : values) value = std::ldexp(mantissa(*random), exponent(*random));
  return values;
}

std::vector<std::vector<float>> RandomShares(uint32_t shares, size_t size, std::mt19937* random) {
  std::vector<std::vector<float>> gradients;
  for (uint32_t s = 0; s < shares; ++s) gradients.push_back(RandomFloats(size, random));
  return gradients;
}

std::vector<ShareSpan> RandomGrouping(ShareSpan span, std::mt19937* random) {
  if (span.size() == 1 || (*random)() % 3 == 0) return {span};
  const uint32_t split = SplitPoint(span);
  std::vector<ShareSpan> spans = RandomGrouping({span.begin, split}, random);
  const std::vector<ShareSpan> right = RandomGrouping({split, span.end}, random);
  spans.insert(spans.end(), right.begin(), right.end());
  std::shuffle(spans.begin(), spans.end(), *random);
  return spans;
}

SlicePayload OnePiece(const std::vector<float>& values) {
  auto owner = std::make_shared<std::vector<float>>(values);
  const ByteSpan piece = {reinterpret_cast<const uint8_t*>(owner->data()),
                          owner->size() * sizeof(float)};
  return SlicePayload({piece}, owner);
}

SlicePayload RandomPieces(const std::vector<float>& values, std::mt19937* random) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  const size_t size = values.size() * sizeof(float);
  // Short pieces half of the time, so that elements straddle often.
  const size_t longest = (*random)() % 2 == 0 ? 11 : 5000;
  auto owner = std::make_shared<std::vector<std::vector<uint8_t>>>();
  std::vector<ByteSpan> pieces;
  for (size_t done = 0; done < size;) {
    const size_t count = std::min<size_t>((*random)() % (longest + 1), size - done);
    const size_t shift = (*random)() % 16;
    // Exactly as long as needed, so that a sanitizer sees a read beyond the piece.
    std::vector<uint8_t> piece(shift + count);
    if (count > 0) std::memcpy(piece.data() + shift, bytes + done, count);
    owner->push_back(std::move(piece));
    pieces.push_back({owner->back().data() + shift, count});
    done += count;
  }
  return SlicePayload(std::move(pieces), std::move(owner));
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace sangam
