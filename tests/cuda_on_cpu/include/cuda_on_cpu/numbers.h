#ifndef TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_NUMBERS_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_NUMBERS_H_

// Arithmetic of device code that C++ does not have, or has elsewhere.

#include <math.h>  // NOLINT: device code uses the names of C

#include <cstdint>
#include <cstring>

template <typename T>
T __ldg(const T* address) {
  return *address;
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }

// The C library keeps functions of these names to itself, so these are macros.
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)

namespace cuda_on_cpu {

template <typename To, typename From>
To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

}  // namespace cuda_on_cpu

inline int __float_as_int(float x) { return cuda_on_cpu::BitCast<int>(x); }
inline unsigned __float_as_uint(float x) { return cuda_on_cpu::BitCast<unsigned>(x); }
inline float __int_as_float(int x) { return cuda_on_cpu::BitCast<float>(x); }
inline float __uint_as_float(unsigned x) { return cuda_on_cpu::BitCast<float>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(nearbyintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<uint64_t>(x) * y) >> 32);
}
inline int __mulhi(int x, int y) { return static_cast<int>((static_cast<int64_t>(x) * y) >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(x) * y) >> 64);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }

inline int min(int x, int y) { return y < x ? y : x; }
inline unsigned min(unsigned x, unsigned y) { return y < x ? y : x; }
inline long min(long x, long y) { return y < x ? y : x; }
inline unsigned long min(unsigned long x, unsigned long y) { return y < x ? y : x; }
inline long long min(long long x, long long y) { return y < x ? y : x; }
inline unsigned long long min(unsigned long long x, unsigned long long y) { return y < x ? y : x; }
inline float min(float x, float y) { return fminf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline int max(int x, int y) { return y > x ? y : x; }
inline unsigned max(unsigned x, unsigned y) { return y > x ? y : x; }
inline long max(long x, long y) { return y > x ? y : x; }
inline unsigned long max(unsigned long x, unsigned long y) { return y > x ? y : x; }
inline long long max(long long x, long long y) { return y > x ? y : x; }
inline unsigned long long max(unsigned long long x, unsigned long long y) { return y > x ? y : x; }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double max(double x, double y) { return fmax(x, y); }

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_CUDA_ON_CPU_NUMBERS_H_
