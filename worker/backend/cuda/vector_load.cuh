#ifndef SANGAM_WORKER_BACKEND_CUDA_VECTOR_LOAD_CUH_
#define SANGAM_WORKER_BACKEND_CUDA_VECTOR_LOAD_CUH_

#include <cuda_runtime.h>

#include <cstdint>

// Memory accesses of 128 bits where addresses allow, of 32 elsewhere. Which of them was taken must
// not be seen in a result: where a product and a sum of products could be fused in two ways, say
// which by fmaf.
namespace sangam::cuda_kernels {

// Whether all pointers are multiples of 16 bytes.
template <typename... Pointers>
inline bool Aligned16(Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) | ...) & 15) == 0;
}

// kWidth numbers side by side: 1 or 4.
template <int kWidth>
struct Floats {
  float v[kWidth];
};

// kWidth == 4: `from` is a multiple of 16 bytes.
template <int kWidth>
__device__ inline Floats<kWidth> Load(const float* from) {
  static_assert(kWidth == 1 || kWidth == 4, "no such access");
  if constexpr (kWidth == 4) {
    const float4 x = *reinterpret_cast<const float4*>(from);
    return {{x.x, x.y, x.z, x.w}};
  } else {
    return {{*from}};
  }
}

template <int kWidth>
__device__ inline void Store(const Floats<kWidth>& x, float* to) {
  if constexpr (kWidth == 4) {
    *reinterpret_cast<float4*>(to) = {x.v[0], x.v[1], x.v[2], x.v[3]};
  } else {
    *to = x.v[0];
  }
}

// Elements [first, first + 4) of a row; 0 for those from `cols` on. `vector`: the row is a multiple
// of 16 bytes and `cols` one of 4; the same numbers either way.
__device__ inline Floats<4> LoadQuad(const float* row, int64_t first, int64_t cols, bool vector) {
  if (vector) return Load<4>(row + first);
  Floats<4> x;
#pragma unroll
  for (int k = 0; k < 4; ++k) x.v[k] = first + k < cols ? row[first + k] : 0.0f;
  return x;
}

__device__ inline void StoreQuad(const Floats<4>& x, float* row, int64_t first, int64_t cols,
                                 bool vector) {
  if (vector) {
    Store<4>(x, row + first);
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (first + k < cols) row[first + k] = x.v[k];
  }
}

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_VECTOR_LOAD_CUH_
