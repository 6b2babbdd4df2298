#include "worker/backend/cpu/tf32.h"

#include <cstdint>

#include "worker/backend/cpu/kernel.h"

namespace sangam::cpu_kernels {

SANGAM_CPU_KERNEL
void RoundToTf32(const float* in, int64_t size, float* out) {
  for (int64_t i = 0; i < size; ++i) out[i] = RoundedToTf32(in[i]);
}

}  // namespace sangam::cpu_kernels
