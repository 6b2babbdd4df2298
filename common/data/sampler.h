#ifndef SANGAM_COMMON_DATA_SAMPLER_H_
#define SANGAM_COMMON_DATA_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "common/base/philox.h"

namespace sangam {

// The order of the samples of one epoch: a permutation of [0, num_samples) that can be asked at any
// position, in constant time and memory, without the rest of it. It depends on (seed, epoch,
// num_samples) alone, so every worker has the same order without a word to the others. A value;
// immutable.
//
// A Feistel network over pairs (Black & Rogaway 2002, "Ciphers with arbitrary finite domains",
// the generalised Feistel cipher) permutes [0, a * b) with a, b near the square root of
// num_samples; its round function is Philox at the address (seed, shuffle, epoch, round). What
// lands outside of [0, num_samples) is permuted again until it lies inside ("cycle walking").
class Sampler {
 public:
  // The order of the file: position p is sample p.
  static Sampler InOrder(uint64_t num_samples);
  // REQUIRES: num_samples >= 1.
  static Sampler Shuffled(uint64_t seed, uint64_t epoch, uint64_t num_samples);

  // The sample at `position`.
  // REQUIRES: position < num_samples().
  uint64_t SampleAt(uint64_t position) const;

  uint64_t num_samples() const { return num_samples_; }

 private:
  explicit Sampler(uint64_t num_samples) : num_samples_(num_samples) {}
  uint64_t Permute(uint64_t value) const;

  uint64_t num_samples_;
  // The domain is width_ * height_, at least num_samples_.
  uint64_t width_ = 1;
  uint64_t height_ = 1;
  std::vector<RandomStream> rounds_;  // empty: the identity
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_SAMPLER_H_
