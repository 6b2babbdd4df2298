#ifndef SANGAM_WORKER_BACKEND_CPU_BF16_H_
#define SANGAM_WORKER_BACKEND_CPU_BF16_H_

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernel.h"

// bfloat16: the upper half of a binary32 number. Rounding is to nearest, ties to even; what lies
// beyond the largest becomes infinite, and a NaN stays one, made quiet.
namespace sangam::cpu_kernels {

SANGAM_CPU_INLINE uint32_t Bf16Bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint32_t rounded = bits + (0x7FFFu + ((bits >> 16) & 1));
  const uint32_t quiet = bits | 0x00400000u;
  return ((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded) >> 16;
}

// The rounded number as binary32.
SANGAM_CPU_INLINE float RoundedToBf16(float x) {
  const uint32_t bits = Bf16Bits(x) << 16;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof(rounded));
  return rounded;
}

// out[i] = in[i] rounded, for `size` elements; `out` may be `in`.
void RoundToBf16(const float* in, int64_t size, float* out);

// The same as the upper halves alone.
void PackBf16(const float* in, int64_t size, uint16_t* out);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_BF16_H_
