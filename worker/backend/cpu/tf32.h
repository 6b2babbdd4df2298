#ifndef SANGAM_WORKER_BACKEND_CPU_TF32_H_
#define SANGAM_WORKER_BACKEND_CPU_TF32_H_

#include <cstdint>
#include <cstring>

#include "worker/backend/cpu/kernel.h"

// TF32: binary32 numbers with 11 significant bits. Rounding is to nearest, ties to even; what lies
// beyond the largest becomes infinite, and a NaN stays one, made quiet.
namespace sangam::cpu_kernels {

SANGAM_CPU_INLINE float RoundedToTf32(float x) {
  constexpr uint32_t kKept = 0xFFFFE000u;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const uint32_t rounded = bits + (0x0FFFu + ((bits >> 13) & 1));
  const uint32_t quiet = bits | 0x00400000u;
  bits = ((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded) & kKept;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

// out[i] = in[i] rounded, for `size` elements; `out` may be `in`.
void RoundToTf32(const float* in, int64_t size, float* out);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_TF32_H_
