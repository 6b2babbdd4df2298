#ifndef SANGAM_WORKER_BACKEND_CPU_FUNCTIONS_H_
#define SANGAM_WORKER_BACKEND_CPU_FUNCTIONS_H_

#include <cstdint>
#include <cstring>

// exp, tanh and the normal distribution in binary32, without branches, so that loops over them
// vectorise (libm's versions are called one by one). The coefficients are minimax fits of the
// relative error, found by Remez' exchange in 40 digits.
//
// Largest errors, found over a dense sample of all floats (functions_test.cc asserts them):
//   Exp             1 ulp on [-87.3, 88]
//   Tanh            1.5 ulp
//   Sigmoid         3 ulp where it is not subnormal
//   NormalAt.tail   5e-7 relative, Gelu 1e-6 relative, where they are not subnormal
//   GeluDerivative  3e-7 absolute
namespace sangam::cpu_functions {

// 2^exponent / 2^0 for exponents in [-126, 127], from bits that carry the exponent in their low
// byte.
inline float PowerOfTwo(uint32_t exponent) {
  const uint32_t bits = (exponent + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof(power));
  return power;
}

// exp(x + small), where |small| is at most 0.1: the argument in two parts keeps what x lost to
// rounding. 0 below -87.3; x + small must not exceed 88.
inline float ExpOfSum(float x, float small) {
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
  constexpr float kRound = 12582912.0f;
  constexpr float kLog2E = 1.44269504f;
  // ln 2 in two parts; n times the first is exact for the n that occur.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  const float rounded = (x + small) * kLog2E + kRound;
  uint32_t n;
  std::memcpy(&n, &rounded, sizeof(n));
  const float whole = rounded - kRound;
  const float r = ((x - whole * kLn2High) - whole * kLn2Low) + small;
  // exp(r) = 1 + r + r^2 P(r) on |r| <= ln(2) / 2; error of the fit 3.1e-9.
  float p = 0.00138145990424f;
  p = p * r + 0.00836871686899f;
  p = p * r + 0.0416683880398f;
  p = p * r + 0.166665206319f;
  p = p * r + 0.499999934478f;
  const float result = ((p * r) * r + r) + 1.0f;
  return x < -87.3f ? 0.0f : result * PowerOfTwo(n - 0x4B400000u);
}

// exp(x) for x <= 88; 0 below -87.3.
inline float Exp(float x) { return ExpOfSum(x, 0.0f); }

inline float Tanh(float x) {
  const float magnitude = x < 0 ? -x : x;
  // Near 0: x + x^3 P(x^2) on |x| <= 0.625; error of the fit 4.4e-9.
  const float z = x * x;
  float p = -0.00570498750645f;
  p = p * z + 0.0206390880121f;
  p = p * z - 0.0537397154394f;
  p = p * z + 0.133314422041f;
  p = p * z - 0.333332819423f;
  const float near = x + x * (z * p);
  // Elsewhere: 1 - 2 / (exp(2 |x|) + 1), which is 1 from 9.01 on.
  const float bounded = magnitude > 10.0f ? 10.0f : magnitude;
  const float far = 1.0f - 2.0f / (Exp(2.0f * bounded) + 1.0f);
  const float signed_far = x < 0 ? -far : far;
  return magnitude < 0.625f ? near : signed_far;
}

// 1 / (1 + exp(-x)).
inline float Sigmoid(float x) {
  // exp of what is negative never overflows.
  const float e = Exp(x < 0 ? x : -x);
  const float s = 1.0f / (1.0f + e);
  return x < 0 ? e * s : s;
}

// The standard normal distribution at x: density up to its constant, and what lies beyond |x|.
struct Normal {
  float bell;  // exp(-x^2 / 2)
  float tail;  // 1 - Phi(|x|)
};

inline Normal NormalAt(float x) {
  const float magnitude = x < 0 ? -x : x;
  // Beyond 14 both are 0. A NaN stays one.
  const float t = magnitude > 14.0f ? 14.0f : magnitude;
  // t = high + low with high * high exact, so that the exponent loses nothing to rounding.
  uint32_t bits;
  std::memcpy(&bits, &t, sizeof(bits));
  bits &= 0xFFFFF000u;
  float high;
  std::memcpy(&high, &bits, sizeof(high));
  const float bell = ExpOfSum(-0.5f * (high * high), -0.5f * ((t - high) * (t + high)));
  // tail = bell * u P(u) with u = 1 / (1 + 0.35 t); error of the fit 3.2e-8 on [0, 14].
  const float u = 1.0f / (1.0f + 0.35f * t);
  float p = -0.0291458963603f;
  p = p * u + 0.143971537496f;
  p = p * u - 0.255713935592f;
  p = p * u + 0.159173813762f;
  p = p * u - 0.0231096109413f;
  p = p * u + 0.105507916186f;
  p = p * u + 0.119832887915f;
  p = p * u + 0.139861867163f;
  p = p * u + 0.139621404426f;
  return {bell, bell * (u * p)};
}

// x Phi(x).
inline float Gelu(float x) {
  const float tail = NormalAt(x).tail;
  return x * (x < 0 ? tail : 1.0f - tail);
}

// d/dx (x Phi(x)) = Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi).
inline float GeluDerivative(float x) {
  constexpr float kInverseSqrt2Pi = 0.398942280f;
  const Normal normal = NormalAt(x);
  const float phi = x < 0 ? normal.tail : 1.0f - normal.tail;
  return phi + (x * normal.bell) * kInverseSqrt2Pi;
}

}  // namespace sangam::cpu_functions

#endif  // SANGAM_WORKER_BACKEND_CPU_FUNCTIONS_H_
