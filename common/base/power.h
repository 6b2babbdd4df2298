#ifndef SANGAM_COMMON_BASE_POWER_H_
#define SANGAM_COMMON_BASE_POWER_H_

#include <cstdint>

namespace sangam {

// base^exponent by squaring: multiplications alone, so that the bits are the same with every
// mathematical library.
inline double Power(double base, uint64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_POWER_H_
