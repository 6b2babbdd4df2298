#include "common/data/sampler.h"

#include <array>
#include <cmath>
#include <cstdint>

#include "common/base/check.h"
#include "common/base/philox.h"

namespace sangam {
namespace {

// Numbers of rounds; even, so that the two halves are back in their places at the end. Four rounds
// make a random permutation out of random functions when the domain is large (Luby & Rackoff 1988).
// Over a handful of samples the orders become equally likely only after some twenty.
constexpr uint64_t kRounds = 8;
constexpr uint64_t kRoundsOfFew = 24;
constexpr uint64_t kFewSamples = 1024;

// Smallest s with s * s >= value.
uint64_t CeilSqrt(uint64_t value) {
  // Within a few units of the root; the loops make it exact.
  uint64_t root = static_cast<uint64_t>(std::sqrt(static_cast<double>(value)));
  const auto square = [](uint64_t s) { return static_cast<unsigned __int128>(s) * s; };
  while (square(root) < value) ++root;
  while (root > 0 && square(root - 1) >= value) --root;
  return root;
}

// 64 random bits, so that the remainder below is as good as even for any domain.
uint64_t RoundFunction(const RandomStream& stream, uint64_t value) {
  const std::array<uint32_t, 4> bits = stream.Block(value);
  return uint64_t{bits[0]} << 32 | bits[1];
}

}  // namespace

Sampler Sampler::InOrder(uint64_t num_samples) { return Sampler(num_samples); }

Sampler Sampler::Shuffled(uint64_t seed, uint64_t epoch, uint64_t num_samples) {
  SANGAM_CHECK(num_samples >= 1);
  Sampler sampler(num_samples);
  sampler.width_ = CeilSqrt(num_samples);
  sampler.height_ = (num_samples + sampler.width_ - 1) / sampler.width_;
  const uint64_t rounds = num_samples <= kFewSamples ? kRoundsOfFew : kRounds;
  sampler.rounds_.reserve(rounds);
  for (uint64_t round = 0; round < rounds; ++round) {
    sampler.rounds_.emplace_back(seed, RandomPurpose::kShuffle, epoch, round);
  }
  return sampler;
}

uint64_t Sampler::SampleAt(uint64_t position) const {
  SANGAM_CHECK(position < num_samples_);
  if (rounds_.empty()) return position;
  // Ends: the walk follows a cycle of a permutation, which leads back to `position` itself. On
  // average it takes less than one more turn: the domain is at most twice as large as num_samples.
  uint64_t sample = Permute(position);
  while (sample >= num_samples_) sample = Permute(sample);
  return sample;
}

uint64_t Sampler::Permute(uint64_t value) const {
  // value = left * height + right with left in [0, width), right in [0, height); the moduli change
  // sides with the halves.
  uint64_t left = value / height_;
  uint64_t right = value % height_;
  uint64_t left_size = width_;
  uint64_t right_size = height_;
  for (const RandomStream& round : rounds_) {
    // Both are below 2^32, or nearly so: the sum cannot overflow.
    const uint64_t mixed = (left + RoundFunction(round, right) % left_size) % left_size;
    left = right;
    right = mixed;
    const uint64_t size = left_size;
    left_size = right_size;
    right_size = size;
  }
  return left * height_ + right;
}

}  // namespace sangam
