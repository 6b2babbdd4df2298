#ifndef SANGAM_WORKER_BACKEND_CPU_WIDE_FUNCTIONS_H_
#define SANGAM_WORKER_BACKEND_CPU_WIDE_FUNCTIONS_H_

#include <cmath>
#include <cstdint>

// exp, log, sin and cos in binary64 from additions, multiplications and divisions alone. libm
// chooses its versions by the machine's instruction set, and their last bits differ. For tables and
// once a row: not made for speed. Errors below 1e-14 (wide_functions_test.cc), so that nearly all
// results are right when they are rounded to binary32.
namespace sangam::cpu_functions {

// x: positive, not subnormal.
inline double WideLog(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  // log m = 2 artanh(s); |s| <= 0.172, so that the series is cut below 1e-18.
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * z + 1.0 / k;
  return exponent * 0.69314718055994531 + 2 * s * series;
}

// |x| <= 700.
inline double WideExp(double x) {
  const double n = std::floor(x * 1.4426950408889634 + 0.5);
  // ln 2 in two parts; n times the first is exact.
  const double r = (x - n * 0.69314718036912382) - n * 1.9082149292705877e-10;
  double series = 1;
  for (int k = 14; k >= 1; --k) series = 1 + series * r / k;
  return std::ldexp(series, static_cast<int>(n));  // exact
}

struct SinCos {
  double sin, cos;
};

// |x| <= 2^20.
inline SinCos WideSinCos(double x) {
  const double n = std::floor(x * 0.63661977236758134 + 0.5);
  // pi / 2 in two parts, likewise.
  const double r = (x - n * 1.5707963267341256) - n * 6.0771005065061922e-11;
  const double z = r * r;
  double sin = 1;
  double cos = 1;
  for (int k = 18; k >= 2; k -= 2) {
    sin = 1 - sin * z / (k * (k + 1));
    cos = 1 - cos * z / (k * (k - 1));
  }
  sin *= r;
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

}  // namespace sangam::cpu_functions

#endif  // SANGAM_WORKER_BACKEND_CPU_WIDE_FUNCTIONS_H_
