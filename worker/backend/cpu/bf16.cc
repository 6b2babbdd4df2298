#include "worker/backend/cpu/bf16.h"

#include <cstdint>

#include "worker/backend/cpu/kernel.h"

namespace sangam::cpu_kernels {

SANGAM_CPU_KERNEL
void RoundToBf16(const float* in, int64_t size, float* out) {
  for (int64_t i = 0; i < size; ++i) out[i] = RoundedToBf16(in[i]);
}

SANGAM_CPU_KERNEL
void PackBf16(const float* in, int64_t size, uint16_t* out) {
  for (int64_t i = 0; i < size; ++i) out[i] = static_cast<uint16_t>(Bf16Bits(in[i]));
}

}  // namespace sangam::cpu_kernels
