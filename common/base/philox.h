#ifndef SANGAM_COMMON_BASE_PHILOX_H_
#define SANGAM_COMMON_BASE_PHILOX_H_

#include <array>
#include <cstdint>

// Random numbers with an address.
//
// Every random number of a job is a pure function of (seed, purpose, two indices, element): it
// does not depend on who asks for it, how often, or in which order. The generator is Philox4x32-10
// (Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").
namespace sangam {

// What a random number is for. Values are part of the promise "one job, one result": never reuse
// or renumber them.
enum class RandomPurpose : uint32_t {
  kInitialWeights = 1,  // major: parameter index; minor: 0
  kShuffle = 2,         // major: epoch; minor: round
  kDropout = 3,         // major: step; minor: layer index << 32 | position in the batch
  kAugmentation = 4,    // major: epoch; minor: sample
  kSynthetic = 5,       // major: sample, output or token; minor: see common/data/synthetic.cc
};

// One application of Philox4x32-10 to a counter under a key.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The stream of 32-bit numbers at one address. A value type: copying it is free. The address is
// (seed, purpose, major, minor); it is folded into a 64-bit key and the counter's upper half by
// Philox itself, so that different addresses give independent streams.
class RandomStream {
 public:
  RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t major, uint64_t minor);

  // The four numbers of elements [4 * block, 4 * block + 4).
  std::array<uint32_t, 4> Block(uint64_t block) const;

  // Number at `element`.
  uint32_t At(uint64_t element) const { return Block(element / 4)[element % 4]; }

  // What Block(b) applies Philox4x32 to: counter {low b, high b, high()[0], high()[1]} under key().
  // For kernels that compute many blocks side by side.
  const std::array<uint32_t, 2>& key() const { return key_; }
  const std::array<uint32_t, 2>& high() const { return high_; }

 private:
  std::array<uint32_t, 2> key_ = {};
  std::array<uint32_t, 2> high_ = {};
};

// Maps a 32-bit number to [0, 1): multiples of 2^-24, exact in binary32.
inline float ToUnitFloat(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_PHILOX_H_
