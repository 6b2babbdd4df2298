#include "server/core/vector_kernels.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

// AVX2 follows SSE4 on every machine that matters; SSSE3 would only take compile time.
#define HWY_DISABLED_TARGETS HWY_SSSE3
// Highway compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/core/vector_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sangam {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "payloads are little-endian");

// Calls body(d, i) for elements i, ... as many as d has lanes: full vectors, then one by one.
template <class Body>
HWY_INLINE void ForEach(size_t count, const Body& body) {
  const hn::ScalableTag<float> full;
  const size_t lanes = hn::Lanes(full);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) body(full, i);
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) body(one, i);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadBytes(D d, const uint8_t* bytes, size_t index) {
#if HWY_TARGET == HWY_SCALAR
  float value;
  std::memcpy(&value, bytes + index * sizeof(float), sizeof(value));
  return hn::Set(d, value);
#else
  const hn::Repartition<uint8_t, D> as_bytes;
  return hn::BitCast(d, hn::LoadU(as_bytes, bytes + index * sizeof(float)));
#endif
}

void Add(const uint8_t* a, const uint8_t* b, float* HWY_RESTRICT out, size_t count) {
  ForEach(count, [=](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Add(LoadBytes(d, a, i), LoadBytes(d, b, i)), d, out + i);
  });
}

void AddTo(const uint8_t* a, float* HWY_RESTRICT sum, size_t count) {
  ForEach(count, [=](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), LoadBytes(d, a, i)), d, sum + i);
  });
}

// Stores value(d, i) / divisor to out + i. Returns whether all of them are finite.
template <class Value>
HWY_INLINE bool StoreQuotients(const Value& value, float divisor, float* HWY_RESTRICT out,
                               size_t count) {
  // x - x is 0 exactly when x is finite, else NaN, of which "or" keeps the exponent.
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> one;
  auto bad = hn::Zero(full);
  auto bad_rest = hn::Zero(one);
  const size_t lanes = hn::Lanes(full);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::Div(value(full, i), hn::Set(full, divisor));
    bad = hn::Or(bad, hn::Sub(x, x));
    hn::StoreU(x, full, out + i);
  }
  for (; i < count; ++i) {
    const auto x = hn::Div(value(one, i), hn::Set(one, divisor));
    bad_rest = hn::Or(bad_rest, hn::Sub(x, x));
    hn::StoreU(x, one, out + i);
  }
  return hn::AllTrue(full, hn::Eq(bad, hn::Zero(full))) && hn::GetLane(bad_rest) == 0;
}

bool Divide(const uint8_t* a, float divisor, float* out, size_t count) {
  return StoreQuotients([=](auto d, size_t i) HWY_ATTR { return LoadBytes(d, a, i); }, divisor, out,
                        count);
}

bool AddDivide(const uint8_t* a, const uint8_t* b, float divisor, float* out, size_t count) {
  return StoreQuotients([=](auto d, size_t i)
                            HWY_ATTR { return hn::Add(LoadBytes(d, a, i), LoadBytes(d, b, i)); },
                        divisor, out, count);
}

// factor * x.
template <class D>
HWY_INLINE hn::Vec<D> Times(D d, float factor, hn::Vec<D> x) {
  return hn::Mul(hn::Set(d, factor), x);
}

// g * scale + decay * w.
template <class D, class Step>
HWY_INLINE hn::Vec<D> CoupledGradient(D d, const Step& s, hn::Vec<D> w, const UpdateRun& run,
                                      size_t i) {
  return hn::Add(Times(d, s.scale, hn::LoadU(d, run.next + i)), Times(d, s.decay, w));
}

// Steps and runs are copied: the compiler then knows that no store changes them.

void Sgd(const SgdStep& step, const UpdateRun& range) {
  ForEach(range.count, [s = step, run = range](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, run.weights + i);
    const auto g = CoupledGradient(d, s, w, run, i);
    hn::StoreU(hn::Sub(w, Times(d, s.learning_rate, g)), d, run.next + i);
  });
}

template <bool kNesterov>
HWY_INLINE void MomentumLoop(const MomentumStep& step, const UpdateRun& range) {
  ForEach(range.count, [s = step, run = range](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, run.weights + i);
    const auto g = CoupledGradient(d, s, w, run, i);
    const auto v = hn::Add(Times(d, s.momentum, hn::LoadU(d, run.state[0] + i)), g);
    hn::StoreU(v, d, run.state[0] + i);
    const auto u = kNesterov ? hn::Add(g, Times(d, s.momentum, v)) : v;
    hn::StoreU(hn::Sub(w, Times(d, s.learning_rate, u)), d, run.next + i);
  });
}

void Momentum(const MomentumStep& step, const UpdateRun& run) {
  return step.nesterov ? MomentumLoop<true>(step, run) : MomentumLoop<false>(step, run);
}

void Adagrad(const AdagradStep& step, const UpdateRun& range) {
  ForEach(range.count, [s = step, run = range](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, run.weights + i);
    const auto g = CoupledGradient(d, s, w, run, i);
    const auto sum = hn::Add(hn::LoadU(d, run.state[0] + i), hn::Mul(g, g));
    hn::StoreU(sum, d, run.state[0] + i);
    const auto root = hn::Add(hn::Sqrt(sum), hn::Set(d, s.epsilon));
    hn::StoreU(hn::Sub(w, hn::Div(Times(d, s.learning_rate, g), root)), d, run.next + i);
  });
}

// decay * x + (rest * g) * g, the running mean of squares.
template <class D>
HWY_INLINE hn::Vec<D> MeanOfSquares(D d, float decay, hn::Vec<D> x, float rest, hn::Vec<D> g) {
  return hn::Add(Times(d, decay, x), hn::Mul(Times(d, rest, g), g));
}

template <bool kCentered, bool kMomentum>
HWY_INLINE void RmsPropLoop(const RmsPropStep& step, const UpdateRun& range) {
  ForEach(range.count, [s = step, run = range](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, run.weights + i);
    const auto g = CoupledGradient(d, s, w, run, i);
    float* const squares = run.state[0] + i;
    auto square = MeanOfSquares(d, s.alpha, hn::LoadU(d, squares), s.one_minus_alpha, g);
    hn::StoreU(square, d, squares);
    if (kCentered) {
      float* const means = run.state[1] + i;
      const auto mean =
          hn::Add(Times(d, s.alpha, hn::LoadU(d, means)), Times(d, s.one_minus_alpha, g));
      hn::StoreU(mean, d, means);
      square = hn::ZeroIfNegative(hn::Sub(square, hn::Mul(mean, mean)));
    }
    const auto root = hn::Add(hn::Sqrt(square), hn::Set(d, s.epsilon));
    if (kMomentum) {
      float* const velocities = run.state[kCentered ? 2 : 1] + i;
      const auto v = hn::Add(Times(d, s.momentum, hn::LoadU(d, velocities)), hn::Div(g, root));
      hn::StoreU(v, d, velocities);
      hn::StoreU(hn::Sub(w, Times(d, s.learning_rate, v)), d, run.next + i);
    } else {
      hn::StoreU(hn::Sub(w, hn::Div(Times(d, s.learning_rate, g), root)), d, run.next + i);
    }
  });
}

void RmsProp(const RmsPropStep& step, const UpdateRun& run) {
  if (step.centered) {
    return step.momentum != 0 ? RmsPropLoop<true, true>(step, run)
                              : RmsPropLoop<true, false>(step, run);
  }
  return step.momentum != 0 ? RmsPropLoop<false, true>(step, run)
                            : RmsPropLoop<false, false>(step, run);
}

// The new m and v, both stored.
template <class V>
struct Moments {
  V m, v;
};

template <class D, class Step>
HWY_INLINE Moments<hn::Vec<D>> NextMoments(D d, const Step& s, hn::Vec<D> g, const UpdateRun& run,
                                           size_t i) {
  const auto m =
      hn::Add(Times(d, s.beta1, hn::LoadU(d, run.state[0] + i)), Times(d, s.one_minus_beta1, g));
  const auto v = MeanOfSquares(d, s.beta2, hn::LoadU(d, run.state[1] + i), s.one_minus_beta2, g);
  hn::StoreU(m, d, run.state[0] + i);
  hn::StoreU(v, d, run.state[1] + i);
  return {m, v};
}

void Adam(const AdamStep& step, const UpdateRun& range) {
  ForEach(range.count, [s = step, run = range](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, run.weights + i);
    const auto next = NextMoments(d, s, CoupledGradient(d, s, w, run, i), run, i);
    const auto root = hn::Add(Times(d, s.root_correction, hn::Sqrt(next.v)), hn::Set(d, s.epsilon));
    const auto change = hn::Div(Times(d, s.step_size, next.m), root);
    hn::StoreU(hn::Sub(Times(d, s.shrink, w), change), d, run.next + i);
  });
}

void Lamb(const LambStep& step, const UpdateRun& range) {
  ForEach(range.count, [s = step, run = range](auto d, size_t i) HWY_ATTR {
    const auto w = hn::LoadU(d, run.weights + i);
    const auto next = NextMoments(d, s, Times(d, s.scale, hn::LoadU(d, run.next + i)), run, i);
    const auto root = hn::Add(hn::Sqrt(Times(d, s.correction2, next.v)), hn::Set(d, s.epsilon));
    const auto direction = hn::Div(Times(d, s.correction1, next.m), root);
    hn::StoreU(hn::Add(direction, Times(d, s.decay, w)), d, run.next + i);
  });
}

void Average(const AverageStep& step, const UpdateRun& range) {
  ForEach(range.count, [s = step, run = range](auto d, size_t i) HWY_ATTR {
    const auto kept = Times(d, s.keep, hn::LoadU(d, run.weights + i));
    hn::StoreU(hn::Add(kept, Times(d, s.rate, hn::LoadU(d, run.next + i))), d, run.next + i);
  });
}

void AddSquares(const float* HWY_RESTRICT x, size_t count, SquareSums* sums) {
  // A vector has at most as many lanes as there are partial sums, so none is added to out of turn.
  const hn::CappedTag<double, SquareSums().size()> d;
  const hn::Rebind<float, decltype(d)> floats;
  const size_t lanes = hn::Lanes(d);
  SquareSums partial = *sums;
  size_t i = 0;
  for (; i + partial.size() <= count; i += partial.size()) {
    for (size_t lane = 0; lane < partial.size(); lane += lanes) {
      const auto wide = hn::PromoteTo(d, hn::LoadU(floats, x + i + lane));
      const auto sum = hn::Add(hn::LoadU(d, partial.data() + lane), hn::Mul(wide, wide));
      hn::StoreU(sum, d, partial.data() + lane);
    }
  }
  for (; i < count; ++i) {
    const auto wide = static_cast<double>(x[i]);
    partial[i % partial.size()] += wide * wide;
  }
  *sums = partial;
}

const VectorKernels* Kernels() {
  static const VectorKernels kernels = {hwy::TargetName(HWY_TARGET),
                                        Add,
                                        AddTo,
                                        Divide,
                                        AddDivide,
                                        Sgd,
                                        Momentum,
                                        Adagrad,
                                        RmsProp,
                                        Adam,
                                        Lamb,
                                        Average,
                                        AddSquares};
  return &kernels;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sangam
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sangam {

double SumOfSquares(const float* x, size_t count, const VectorKernels& kernels) {
  SquareSums sums = {};
  kernels.add_squares(x, count, &sums);
  for (size_t half = sums.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

std::vector<const VectorKernels*> SupportedKernels() {
  struct Set {
    int64_t target;
    const VectorKernels* (*kernels)();  // null: not compiled for this architecture
  };
  constexpr Set kSets[] = {{HWY_NEON, HWY_CHOOSE_NEON(Kernels)},
                           {HWY_SSE4, HWY_CHOOSE_SSE4(Kernels)},
                           {HWY_AVX2, HWY_CHOOSE_AVX2(Kernels)},
                           {HWY_AVX3, HWY_CHOOSE_AVX3(Kernels)}};
  std::vector<const VectorKernels*> supported = {(HWY_CHOOSE_FALLBACK(Kernels))()};
  const int64_t targets = hwy::SupportedTargets();
  for (const Set& set : kSets) {
    if (set.kernels == nullptr || (targets & set.target) == 0) continue;
    if (set.kernels() != supported[0]) supported.push_back(set.kernels());
  }
  return supported;
}

const VectorKernels& FastestKernels() {
  static const VectorKernels& fastest = *SupportedKernels().back();
  return fastest;
}

}  // namespace sangam
#endif  // HWY_ONCE
