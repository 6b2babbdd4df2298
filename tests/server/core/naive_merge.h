#ifndef SANGAM_TESTS_SERVER_CORE_NAIVE_MERGE_H_
#define SANGAM_TESTS_SERVER_CORE_NAIVE_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "common/plan/span.h"
#include "common/tensor/slices.h"

// What the merge is compared with: plain loops that follow the definition.
namespace sangam {

// The sum of the shares' gradients over `span`: the sum of its left half plus the sum of its right
// half, each by the same rule.
std::vector<float> NaiveSum(const std::vector<std::vector<float>>& shares, ShareSpan span);

// `size` numbers of mixed magnitudes and signs, so that the order of additions shows.
std::vector<float> RandomFloats(size_t size, std::mt19937* random);

// One gradient of `size` elements for each share.
std::vector<std::vector<float>> RandomShares(uint32_t shares, size_t size, std::mt19937* random);

// Some nodes of the tree below `span` that together are `span`, in any order.
std::vector<ShareSpan> RandomGrouping(ShareSpan span, std::mt19937* random);

// The values as a payload in one aligned piece.
SlicePayload OnePiece(const std::vector<float>& values);

// The values as a payload in pieces of any length and alignment, some of them empty.
SlicePayload RandomPieces(const std::vector<float>& values, std::mt19937* random);

// Equality that tells 0 from -0.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace sangam

#endif  // SANGAM_TESTS_SERVER_CORE_NAIVE_MERGE_H_
