#include "server/core/vector_kernels.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#define SANGAM_ALWAYS_INLINE inline __attribute__((always_inline))

namespace sangam {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "payloads are little-endian");

// Inner loops have this constant length, so that compilers turn them into vectors of any width
// without versions for other lengths. Sixteen floats are one AVX-512 register.
constexpr size_t kLanes = 16;

SANGAM_ALWAYS_INLINE float Load(const uint8_t* bytes, size_t index) {
  float value;
  std::memcpy(&value, bytes + index * sizeof(float), sizeof(value));
  return value;
}

// x - x is +0 (no bit set) exactly when x is finite, else NaN.
SANGAM_ALWAYS_INLINE uint32_t NonFiniteBits(float x) {
  const float difference = x - x;
  uint32_t bits;
  std::memcpy(&bits, &difference, sizeof(bits));
  return bits;
}

SANGAM_ALWAYS_INLINE bool AllZero(const uint32_t* bits) {
  uint32_t any = 0;
  for (size_t j = 0; j < kLanes; ++j) any |= bits[j];
  return any == 0;
}

SANGAM_ALWAYS_INLINE float MomentumElement(const MomentumStep& s, float w, float g, float* v) {
  *v = s.momentum * *v + g;
  return w - s.learning_rate * *v;
}

SANGAM_ALWAYS_INLINE float AdamWElement(const AdamWStep& s, float w, float g, float* m, float* v) {
  const float new_m = s.beta1 * *m + s.one_minus_beta1 * g;
  const float new_v = s.beta2 * *v + s.one_minus_beta2 * (g * g);
  *m = new_m;
  *v = new_v;
  const float direction = (new_m * s.correction1) / (std::sqrt(new_v * s.correction2) + s.epsilon);
  return w - s.learning_rate * (direction + s.decay * w);
}

// The loops, once for all instruction sets: each is inlined into one function of each set.

SANGAM_ALWAYS_INLINE void AddLoop(const uint8_t* __restrict a, const uint8_t* __restrict b,
                                  float* __restrict out, size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) out[i + j] = Load(a, i + j) + Load(b, i + j);
  }
  for (; i < count; ++i) out[i] = Load(a, i) + Load(b, i);
}

SANGAM_ALWAYS_INLINE void AddToLoop(const uint8_t* __restrict a, float* __restrict sum,
                                    size_t count) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) sum[i + j] = sum[i + j] + Load(a, i + j);
  }
  for (; i < count; ++i) sum[i] = sum[i] + Load(a, i);
}

SANGAM_ALWAYS_INLINE bool DivideLoop(const uint8_t* __restrict a, float divisor,
                                     float* __restrict out, size_t count) {
  uint32_t bad[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const float x = Load(a, i + j) / divisor;
      bad[j] |= NonFiniteBits(x);
      out[i + j] = x;
    }
  }
  for (; i < count; ++i) {
    const float x = Load(a, i) / divisor;
    bad[0] |= NonFiniteBits(x);
    out[i] = x;
  }
  return AllZero(bad);
}

SANGAM_ALWAYS_INLINE bool AddDivideLoop(const uint8_t* __restrict a, const uint8_t* __restrict b,
                                        float divisor, float* __restrict out, size_t count) {
  uint32_t bad[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const float x = (Load(a, i + j) + Load(b, i + j)) / divisor;
      bad[j] |= NonFiniteBits(x);
      out[i + j] = x;
    }
  }
  for (; i < count; ++i) {
    const float x = (Load(a, i) + Load(b, i)) / divisor;
    bad[0] |= NonFiniteBits(x);
    out[i] = x;
  }
  return AllZero(bad);
}

SANGAM_ALWAYS_INLINE void SgdLoop(const SgdStep& step, const float* __restrict weights,
                                  float* __restrict next, size_t count) {
  const float rate = step.learning_rate;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) next[i + j] = weights[i + j] - rate * next[i + j];
  }
  for (; i < count; ++i) next[i] = weights[i] - rate * next[i];
}

SANGAM_ALWAYS_INLINE void MomentumLoop(const MomentumStep& step, const float* __restrict weights,
                                       float* __restrict v, float* __restrict next, size_t count) {
  const MomentumStep s = step;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      next[i + j] = MomentumElement(s, weights[i + j], next[i + j], v + i + j);
    }
  }
  for (; i < count; ++i) next[i] = MomentumElement(s, weights[i], next[i], v + i);
}

SANGAM_ALWAYS_INLINE void AdamWLoop(const AdamWStep& step, const float* __restrict weights,
                                    float* __restrict m, float* __restrict v,
                                    float* __restrict next, size_t count) {
  const AdamWStep s = step;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      next[i + j] = AdamWElement(s, weights[i + j], next[i + j], m + i + j, v + i + j);
    }
  }
  for (; i < count; ++i) next[i] = AdamWElement(s, weights[i], next[i], m + i, v + i);
}

// NOLINTBEGIN(bugprone-macro-parentheses): an attribute cannot stand in parentheses.
// Defines the struct SET with the loops compiled for the instruction set that TARGET names.
#define SANGAM_KERNEL_SET(SET, TARGET)                                                           \
  struct SET {                                                                                   \
    TARGET static void Add(const uint8_t* a, const uint8_t* b, float* out, size_t count) {       \
      AddLoop(a, b, out, count);                                                                 \
    }                                                                                            \
    TARGET static void AddTo(const uint8_t* a, float* sum, size_t count) {                       \
      AddToLoop(a, sum, count);                                                                  \
    }                                                                                            \
    TARGET static bool Divide(const uint8_t* a, float divisor, float* out, size_t count) {       \
      return DivideLoop(a, divisor, out, count);                                                 \
    }                                                                                            \
    TARGET static bool AddDivide(const uint8_t* a, const uint8_t* b, float divisor, float* out,  \
                                 size_t count) {                                                 \
      return AddDivideLoop(a, b, divisor, out, count);                                           \
    }                                                                                            \
    TARGET static void Sgd(const SgdStep& step, const float* w, float* next, size_t count) {     \
      SgdLoop(step, w, next, count);                                                             \
    }                                                                                            \
    TARGET static void Momentum(const MomentumStep& step, const float* w, float* v, float* next, \
                                size_t count) {                                                  \
      MomentumLoop(step, w, v, next, count);                                                     \
    }                                                                                            \
    TARGET static void AdamW(const AdamWStep& step, const float* w, float* m, float* v,          \
                             float* next, size_t count) {                                        \
      AdamWLoop(step, w, m, v, next, count);                                                     \
    }                                                                                            \
  }
// NOLINTEND(bugprone-macro-parentheses)

SANGAM_KERNEL_SET(PlainSet, );
#if defined(__x86_64__)
SANGAM_KERNEL_SET(Avx2Set, __attribute__((target("avx2"))));
SANGAM_KERNEL_SET(Avx512Set, __attribute__((target("avx512f"))));
#endif

template <typename Set>
const VectorKernels* Kernels(const char* name) {
  static const VectorKernels kernels = {name,           Set::Add, Set::AddTo,    Set::Divide,
                                        Set::AddDivide, Set::Sgd, Set::Momentum, Set::AdamW};
  return &kernels;
}

}  // namespace

std::vector<const VectorKernels*> SupportedKernels() {
  std::vector<const VectorKernels*> supported = {Kernels<PlainSet>("plain")};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) supported.push_back(Kernels<Avx2Set>("avx2"));
  if (__builtin_cpu_supports("avx512f")) supported.push_back(Kernels<Avx512Set>("avx512f"));
#endif
  return supported;
}

const VectorKernels& FastestKernels() {
  static const VectorKernels& fastest = *SupportedKernels().back();
  return fastest;
}

}  // namespace sangam
