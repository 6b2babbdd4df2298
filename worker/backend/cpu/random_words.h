#ifndef SANGAM_WORKER_BACKEND_CPU_RANDOM_WORDS_H_
#define SANGAM_WORKER_BACKEND_CPU_RANDOM_WORDS_H_

#include <cstdint>

#include "common/base/philox.h"

namespace sangam::cpu_kernels {

// Blocks of a stream that are computed side by side, and their numbers.
constexpr int kRandomBlocks = 64;
constexpr int kRandomWords = 4 * kRandomBlocks;

// words[e] = stream.At(4 * first_block + e). The same numbers on every machine.
// REQUIRES: first_block is a multiple of kRandomBlocks.
void RandomWords(const RandomStream& stream, uint64_t first_block, uint32_t (&words)[kRandomWords]);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_RANDOM_WORDS_H_
