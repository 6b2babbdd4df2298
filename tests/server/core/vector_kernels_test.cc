#include "server/core/vector_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/core/naive_merge.h"

namespace sangam {
namespace {

constexpr size_t kCounts[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 100, 1023, 1024, 1025};

// Floats at an address that is no multiple of four.
class Unaligned {
 public:
  explicit Unaligned(const std::vector<float>& values) : bytes_(values.size() * 4 + 3) {
    if (!values.empty()) std::memcpy(bytes_.data() + 3, values.data(), values.size() * 4);
  }
  const uint8_t* get() const { return bytes_.data() + 3; }

 private:
  std::vector<uint8_t> bytes_;
};

// Every instruction set that this machine has, by its index.
class VectorKernelsTest : public testing::TestWithParam<size_t> {
 protected:
  const VectorKernels& kernels() const { return *SupportedKernels()[GetParam()]; }
  std::mt19937 random_{17};
};

TEST_P(VectorKernelsTest, AddsElementByElement) {
  for (size_t count : kCounts) {
    const std::vector<float> a = RandomFloats(count, &random_);
    const std::vector<float> b = RandomFloats(count, &random_);
    std::vector<float> expected(count);
    for (size_t i = 0; i < count; ++i) expected[i] = a[i] + b[i];
    std::vector<float> out(count);
    kernels().add(Unaligned(a).get(), Unaligned(b).get(), out.data(), count);
    EXPECT_TRUE(SameBits(out, expected)) << count;
    std::vector<float> sum = a;
    kernels().add_to(Unaligned(b).get(), sum.data(), count);
    EXPECT_TRUE(SameBits(sum, expected)) << count;
  }
}

TEST_P(VectorKernelsTest, DividesElementByElement) {
  for (size_t count : kCounts) {
    const std::vector<float> a = RandomFloats(count, &random_);
    const std::vector<float> b = RandomFloats(count, &random_);
    std::vector<float> quotient(count);
    std::vector<float> mean(count);
    for (size_t i = 0; i < count; ++i) {
      quotient[i] = a[i] / 7;
      mean[i] = (a[i] + b[i]) / 7;
    }
    std::vector<float> out(count);
    EXPECT_TRUE(kernels().divide(Unaligned(a).get(), 7, out.data(), count));
    EXPECT_TRUE(SameBits(out, quotient)) << count;
    EXPECT_TRUE(kernels().add_divide(Unaligned(a).get(), Unaligned(b).get(), 7, out.data(), count));
    EXPECT_TRUE(SameBits(out, mean)) << count;
  }
}

TEST_P(VectorKernelsTest, FindsWhatIsNotFiniteAtEveryPlace) {
  constexpr size_t kCount = 37;
  const std::vector<float> finite(kCount, std::numeric_limits<float>::max());
  const std::vector<float> zero(kCount, 0);
  std::vector<float> out(kCount);
  EXPECT_TRUE(kernels().divide(Unaligned(finite).get(), 1, out.data(), kCount));
  EXPECT_TRUE(
      kernels().add_divide(Unaligned(finite).get(), Unaligned(zero).get(), 1, out.data(), kCount));
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    for (size_t place = 0; place < kCount; ++place) {
      std::vector<float> values(kCount, 1);
      values[place] = bad;
      EXPECT_FALSE(kernels().divide(Unaligned(values).get(), 3, out.data(), kCount)) << place;
      EXPECT_FALSE(kernels().add_divide(Unaligned(zero).get(), Unaligned(values).get(), 3,
                                        out.data(), kCount))
          << place;
    }
  }
}

TEST_P(VectorKernelsTest, FindsAnOverflowOfTheSum) {
  for (size_t count : {3, 16}) {
    const std::vector<float> large(count, 3e38f);
    std::vector<float> out(count);
    EXPECT_FALSE(kernels().add_divide(Unaligned(large).get(), Unaligned(large).get(), 1e6f,
                                      out.data(), count));
  }
}

// What an update changes, at an address that no vector is aligned to.
struct Arrays {
  explicit Arrays(size_t size) : count(size) {
    for (std::vector<float>* array : {&w, &s0, &s1, &s2, &next}) array->assign(count + 1, 0);
  }
  UpdateRun run() {
    return {w.data() + 1, {s0.data() + 1, s1.data() + 1, s2.data() + 1}, next.data() + 1, count};
  }
  size_t count;
  std::vector<float> w, s0, s1, s2, next;
};

// One weight, its states and its gradient, for plain loops.
struct Element {
  float w, s0, s1, s2, g;
};

// Numbers for which a fused multiply-add, an approximate root or quotient, or flushing of tiny
// numbers would show: any mantissa, any exponent from the subnormal ones to 2^60.
float HardNumber(std::mt19937* random) {
  std::uniform_int_distribution<uint32_t> any;
  const uint32_t bits = (any(*random) % (187u << 23)) | any(*random) << 31;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Updates with numbers of ordinary and of any size, and compares each bit with the plain formula,
// which returns the new weight and changes the states.
template <typename Step>
void ExpectBits(void (*kernel)(const Step&, const UpdateRun&), const Step& step,
                float (*formula)(const Step&, Element*)) {
  std::mt19937 random(23);
  for (const size_t count : kCounts) {
    for (const bool hard : {false, true}) {
      Arrays arrays(count);
      for (std::vector<float>* array :
           {&arrays.w, &arrays.s0, &arrays.s1, &arrays.s2, &arrays.next}) {
        *array = RandomFloats(count + 1, &random);
        for (float& x : *array) x = hard ? HardNumber(&random) : x;
      }
      // Sums of squares.
      for (float& x : arrays.s0) x = std::fabs(x);
      for (float& x : arrays.s1) x = std::fabs(x);
      Arrays expected = arrays;
      for (size_t i = 1; i <= count; ++i) {
        Element e = {arrays.w[i], arrays.s0[i], arrays.s1[i], arrays.s2[i], arrays.next[i]};
        expected.next[i] = formula(step, &e);
        expected.s0[i] = e.s0;
        expected.s1[i] = e.s1;
        expected.s2[i] = e.s2;
      }
      kernel(step, arrays.run());
      EXPECT_TRUE(SameBits(arrays.w, expected.w)) << count;
      EXPECT_TRUE(SameBits(arrays.s0, expected.s0)) << count << (hard ? " hard" : "");
      EXPECT_TRUE(SameBits(arrays.s1, expected.s1)) << count << (hard ? " hard" : "");
      EXPECT_TRUE(SameBits(arrays.s2, expected.s2)) << count << (hard ? " hard" : "");
      EXPECT_TRUE(SameBits(arrays.next, expected.next)) << count << (hard ? " hard" : "");
    }
  }
}

template <typename Step>
float Gradient(const Step& s, const Element& e) {
  return e.g * s.scale + s.decay * e.w;
}

TEST_P(VectorKernelsTest, SgdFollowsItsFormula) {
  ExpectBits<SgdStep>(kernels().sgd, {0.3f, 0.7f, 0.01f}, [](const SgdStep& s, Element* e) {
    return e->w - s.learning_rate * Gradient(s, *e);
  });
}

TEST_P(VectorKernelsTest, MomentumFollowsItsFormula) {
  for (const bool nesterov : {false, true}) {
    ExpectBits<MomentumStep>(kernels().momentum, {0.3f, 0.9f, nesterov, 0.7f, 0.01f},
                             [](const MomentumStep& s, Element* e) {
                               const float g = Gradient(s, *e);
                               e->s0 = s.momentum * e->s0 + g;
                               const float u = s.nesterov ? g + s.momentum * e->s0 : e->s0;
                               return e->w - s.learning_rate * u;
                             });
  }
}

TEST_P(VectorKernelsTest, AdagradFollowsItsFormula) {
  ExpectBits<AdagradStep>(kernels().adagrad, {0.3f, 1e-10f, 0.7f, 0.01f},
                          [](const AdagradStep& s, Element* e) {
                            const float g = Gradient(s, *e);
                            e->s0 = e->s0 + g * g;
                            return e->w - (s.learning_rate * g) / (std::sqrt(e->s0) + s.epsilon);
                          });
}

TEST_P(VectorKernelsTest, RmsPropFollowsItsFormula) {
  for (const bool centered : {false, true}) {
    for (const float momentum : {0.0f, 0.9f}) {
      ExpectBits<RmsPropStep>(kernels().rmsprop,
                              {0.3f, 0.99f, 0.01f, 1e-8f, momentum, centered, 0.7f, 0.01f},
                              [](const RmsPropStep& s, Element* e) {
                                const float g = Gradient(s, *e);
                                e->s0 = s.alpha * e->s0 + (s.one_minus_alpha * g) * g;
                                float square = e->s0;
                                if (s.centered) {
                                  e->s1 = s.alpha * e->s1 + s.one_minus_alpha * g;
                                  square = square - e->s1 * e->s1;
                                  if (square < 0) square = 0;
                                }
                                const float root = std::sqrt(square) + s.epsilon;
                                if (s.momentum == 0) return e->w - (s.learning_rate * g) / root;
                                float* const v = s.centered ? &e->s2 : &e->s1;
                                *v = s.momentum * *v + g / root;
                                return e->w - s.learning_rate * *v;
                              });
    }
  }
}

TEST_P(VectorKernelsTest, AdamFollowsItsFormula) {
  ExpectBits<AdamStep>(kernels().adam,
                       {0.01f, 0.9f, 0.1f, 0.999f, 0.001f, 1.7f, 1e-8f, 0.99f, 0.7f, 0.01f},
                       [](const AdamStep& s, Element* e) {
                         const float g = Gradient(s, *e);
                         e->s0 = s.beta1 * e->s0 + s.one_minus_beta1 * g;
                         e->s1 = s.beta2 * e->s1 + (s.one_minus_beta2 * g) * g;
                         const float root = std::sqrt(e->s1) * s.root_correction + s.epsilon;
                         return e->w * s.shrink - (s.step_size * e->s0) / root;
                       });
}

TEST_P(VectorKernelsTest, LambFollowsItsFormula) {
  ExpectBits<LambStep>(kernels().lamb, {0.9f, 0.1f, 0.999f, 0.001f, 1.7f, 2.9f, 1e-6f, 0.7f, 0.01f},
                       [](const LambStep& s, Element* e) {
                         const float g = e->g * s.scale;
                         e->s0 = s.beta1 * e->s0 + s.one_minus_beta1 * g;
                         e->s1 = s.beta2 * e->s1 + (s.one_minus_beta2 * g) * g;
                         const float root = std::sqrt(e->s1 * s.correction2) + s.epsilon;
                         return (e->s0 * s.correction1) / root + s.decay * e->w;
                       });
}

TEST_P(VectorKernelsTest, AverageFollowsItsFormula) {
  ExpectBits<AverageStep>(kernels().average, {0.9f, 0.1f}, [](const AverageStep& s, Element* e) {
    return s.keep * e->w + s.rate * e->g;
  });
}

TEST_P(VectorKernelsTest, SumsSquaresInTheWrittenOrder) {
  for (const size_t count : kCounts) {
    std::vector<float> x(count + 1);
    for (float& value : x) value = HardNumber(&random_);
    SquareSums expected;
    expected.fill(0.5);
    SquareSums sums = expected;
    for (size_t i = 0; i < count; ++i) {
      expected[i % 16] += static_cast<double>(x[i + 1]) * static_cast<double>(x[i + 1]);
    }
    kernels().add_squares(x.data() + 1, count, &sums);
    EXPECT_EQ(std::memcmp(&sums, &expected, sizeof(sums)), 0) << count;

    SquareSums zeros = {};
    kernels().add_squares(x.data() + 1, count, &zeros);
    double level[16];
    std::copy(zeros.begin(), zeros.end(), level);
    for (const int half : {8, 4, 2, 1}) {
      for (int i = 0; i < half; ++i) level[i] += level[i + half];
    }
    EXPECT_EQ(SumOfSquares(x.data() + 1, count, kernels()), level[0]) << count;
  }
}

TEST_P(VectorKernelsTest, DividesHardNumbersExactly) {
  constexpr size_t kCount = 4096 + 5;
  std::vector<float> a(kCount), b(kCount), expected(kCount), out(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    a[i] = HardNumber(&random_);
    b[i] = HardNumber(&random_);
    expected[i] = (a[i] + b[i]) / 60000;
  }
  EXPECT_TRUE(
      kernels().add_divide(Unaligned(a).get(), Unaligned(b).get(), 60000, out.data(), kCount));
  EXPECT_TRUE(SameBits(out, expected));
}

INSTANTIATE_TEST_SUITE_P(EverySet, VectorKernelsTest,
                         testing::Range<size_t>(0, SupportedKernels().size()),
                         [](const testing::TestParamInfo<size_t>& info) {
                           return std::string(SupportedKernels()[info.param]->name);
                         });

TEST(FastestKernelsTest, IsTheLastOfTheSupportedOnes) {
  EXPECT_EQ(&FastestKernels(), SupportedKernels().back());
}

}  // namespace
}  // namespace sangam
