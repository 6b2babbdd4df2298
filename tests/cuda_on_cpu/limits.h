#ifndef TESTS_CUDA_ON_CPU_LIMITS_H_
#define TESTS_CUDA_ON_CPU_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace cuda_on_cpu {

// Of a device of compute capability 9.0.
constexpr unsigned kMaxThreadsPerBlock = 1024;
constexpr unsigned kMaxBlockZ = 64;
constexpr uint32_t kMaxGridX = 0x7fffffffu;
constexpr uint32_t kMaxGridYZ = 65535;
constexpr size_t kSharedBytes = size_t{48} << 10;      // what a kernel may have unasked
constexpr size_t kMaxSharedBytes = size_t{227} << 10;  // after cudaFuncSetAttribute

}  // namespace cuda_on_cpu

#endif  // TESTS_CUDA_ON_CPU_LIMITS_H_
