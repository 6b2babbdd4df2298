#ifndef TESTS_CUDA_ON_CPU_INCLUDE_CUDA_BF16_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_CUDA_BF16_H_

// bfloat16: the upper half of a float.

#include <cstdint>
#include <cstring>

#include "vector_types.h"

struct __nv_bfloat16_raw {
  unsigned short x;
};

class __nv_bfloat16 {
 public:
  __nv_bfloat16() = default;
  __nv_bfloat16(__nv_bfloat16_raw raw) : bits_(raw.x) {}
  __nv_bfloat16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
      bits_ = 0x7fff;  // CUDA's NaN
    } else {
      // To nearest, ties to the even one.
      bits_ = static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    }
  }

  operator __nv_bfloat16_raw() const { return {bits_}; }
  operator float() const {
    const uint32_t bits = static_cast<uint32_t>(bits_) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  unsigned short bits_;
};

struct __attribute__((aligned(4))) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline float __bfloat162float(__nv_bfloat16 x) { return static_cast<float>(x); }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) {
  return static_cast<__nv_bfloat16_raw>(x).x;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) {
  return __nv_bfloat16(__nv_bfloat16_raw{x});
}

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_CUDA_BF16_H_
