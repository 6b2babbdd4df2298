#ifndef SANGAM_COMMON_PLAN_SATURATING_H_
#define SANGAM_COMMON_PLAN_SATURATING_H_

#include <cstdint>

// Sums and products that stop at 2^64 - 1: sizes come from users.
namespace sangam {

inline uint64_t SaturatingSum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

template <typename... Factors>
uint64_t SaturatingProduct(uint64_t first, Factors... factors) {
  uint64_t product = first;
  for (const uint64_t factor : {static_cast<uint64_t>(factors)...}) {
    if (__builtin_mul_overflow(product, factor, &product)) return UINT64_MAX;
  }
  return product;
}

// Elements of a shape; 1 for an empty one.
template <typename Shape>
uint64_t SaturatingElements(const Shape& shape) {
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) elements = SaturatingProduct(elements, dimension);
  return elements;
}

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_SATURATING_H_
