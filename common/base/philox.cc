#include "common/base/philox.h"

#include <array>
#include <cstdint>

namespace sangam {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {High(product1) ^ counter[1] ^ key[0], Low(product1),
               High(product0) ^ counter[3] ^ key[1], Low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

RandomStream::RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t major, uint64_t minor) {
  // Two chained applications turn the 224-bit address into 128 bits: 64 of key, 64 of counter.
  const std::array<uint32_t, 4> first = Philox4x32(
      {Low(major), High(major), static_cast<uint32_t>(purpose), 0}, {Low(seed), High(seed)});
  const std::array<uint32_t, 4> second =
      Philox4x32({Low(minor), High(minor), first[2], first[3]}, {first[0], first[1]});
  key_ = {second[0], second[1]};
  high_ = {second[2], second[3]};
}

std::array<uint32_t, 4> RandomStream::Block(uint64_t block) const {
  return Philox4x32({Low(block), High(block), high_[0], high_[1]}, key_);
}

}  // namespace sangam
