#ifndef SANGAM_WORKER_BACKEND_CPU_VECTOR_H_
#define SANGAM_WORKER_BACKEND_CPU_VECTOR_H_

namespace sangam::cpu_kernels {

// Some floats as one value, for loops that the compiler does not turn into vectors by itself. GCC
// keeps it in a register only when one is as wide: on older machines it is slow and right. Results
// must not depend on the number of lanes.
#if defined(__x86_64__)
constexpr int64_t kVectorLanes = 8;
#else
constexpr int64_t kVectorLanes = 4;
#endif
typedef float Vector __attribute__((vector_size(kVectorLanes * sizeof(float))));

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_VECTOR_H_
