#ifndef TESTS_CUDA_ON_CPU_GARBAGE_H_
#define TESTS_CUDA_ON_CPU_GARBAGE_H_

#include <cstddef>
#include <cstdint>

namespace cuda_on_cpu {

// What memory holds that nobody has written: a signalling NaN as a float, a NaN in the upper half
// of each word as a bfloat16, and as a number one that is far beyond any array.
constexpr uint32_t kGarbage = 0x7fbadbadu;
constexpr uint64_t kGarbage64 = (uint64_t{kGarbage} << 32) | kGarbage;

// `at` need not be aligned: each byte depends on its address alone.
void FillGarbage(void* at, size_t bytes);

// Maps private garbage over [at, at + bytes), whole pages, at once: a page costs only when it is
// written. False if the system refuses.
bool MapGarbage(void* at, size_t bytes);

// The first byte that is not garbage, or null.
const void* FindChange(const void* at, size_t bytes);

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_GARBAGE_H_
