#ifndef TESTS_CUDA_ON_CPU_INCLUDE_CUDA_FP16_H_
#define TESTS_CUDA_ON_CPU_INCLUDE_CUDA_FP16_H_

// binary16: a sign, 5 bits of exponent, 10 of fraction.

#include <cmath>
#include <cstdint>
#include <cstring>

struct __half_raw {
  unsigned short x;
};

class __half {
 public:
  __half() = default;
  __half(__half_raw raw) : bits_(raw.x) {}
  __half(float value) : bits_(Round(value)) {}

  operator __half_raw() const { return {bits_}; }
  operator float() const {
    const int exponent = bits_ >> 10 & 31, fraction = bits_ & 1023;
    float value;
    if (exponent == 31) {
      value = fraction != 0 ? NAN : INFINITY;
    } else if (exponent == 0) {
      value = std::ldexp(static_cast<float>(fraction), -24);
    } else {
      value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    }
    return (bits_ >> 15) != 0 ? -value : value;
  }

 private:
  // To nearest, ties to the even one.
  static unsigned short Round(float value) {
    constexpr unsigned kInfinity = 0x7c00;
    if (std::isnan(value)) return 0x7fff;
    const unsigned sign = std::signbit(value) ? 0x8000 : 0;
    const float size = std::fabs(value);
    if (size >= 65520) return static_cast<unsigned short>(sign | kInfinity);
    int exponent;
    std::frexp(size, &exponent);
    // The number as a multiple of its last bit; what carries into the exponent is right there too.
    const int last_bit = size < 0x1p-14f ? -24 : exponent - 11;
    const auto multiple = static_cast<unsigned>(std::nearbyint(std::ldexp(size, -last_bit)));
    const unsigned scale = static_cast<unsigned>(last_bit + 24) << 10;
    return static_cast<unsigned short>(sign | (scale + multiple));
  }

  unsigned short bits_;
};
typedef __half half;

inline __half __float2half_rn(float x) { return __half(x); }
inline __half __float2half(float x) { return __half(x); }
inline float __half2float(__half x) { return static_cast<float>(x); }
inline unsigned short __half_as_ushort(__half x) { return static_cast<__half_raw>(x).x; }
inline __half __ushort_as_half(unsigned short x) { return __half(__half_raw{x}); }

#endif  // TESTS_CUDA_ON_CPU_INCLUDE_CUDA_FP16_H_
