#include "server/core/vector_kernels.h"

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

TEST_P(VectorKernelsTest, SgdFollowsItsFormula) {
  const SgdStep step = {0.3f};
  for (size_t count : kCounts) {
    const std::vector<float> w = RandomFloats(count, &random_);
    std::vector<float> next = RandomFloats(count, &random_);
    std::vector<float> expected(count);
    for (size_t i = 0; i < count; ++i) {
      const float change = step.learning_rate * next[i];
      expected[i] = w[i] - change;
    }
    kernels().sgd(step, w.data(), next.data(), count);
    EXPECT_TRUE(SameBits(next, expected)) << count;
  }
}

TEST_P(VectorKernelsTest, MomentumFollowsItsFormula) {
  const MomentumStep step = {0.3f, 0.9f};
  for (size_t count : kCounts) {
    const std::vector<float> w = RandomFloats(count, &random_);
    std::vector<float> v = RandomFloats(count, &random_);
    std::vector<float> next = RandomFloats(count, &random_);
    std::vector<float> expected_v(count);
    std::vector<float> expected_w(count);
    for (size_t i = 0; i < count; ++i) {
      const float kept = step.momentum * v[i];
      expected_v[i] = kept + next[i];
      const float change = step.learning_rate * expected_v[i];
      expected_w[i] = w[i] - change;
    }
    kernels().momentum(step, w.data(), v.data(), next.data(), count);
    EXPECT_TRUE(SameBits(v, expected_v)) << count;
    EXPECT_TRUE(SameBits(next, expected_w)) << count;
  }
}

TEST_P(VectorKernelsTest, AdamWFollowsItsFormula) {
  const AdamWStep s = {0.01f, 0.9f, 0.1f, 0.99f, 0.01f, 1.5f, 3.25f, 1e-6f, 0.1f};
  for (size_t count : kCounts) {
    const std::vector<float> w = RandomFloats(count, &random_);
    std::vector<float> m = RandomFloats(count, &random_);
    std::vector<float> v = RandomFloats(count, &random_);
    for (float& x : v) x = std::fabs(x);
    std::vector<float> next = RandomFloats(count, &random_);
    std::vector<float> expected_m(count);
    std::vector<float> expected_v(count);
    std::vector<float> expected_w(count);
    for (size_t i = 0; i < count; ++i) {
      const float g = next[i];
      expected_m[i] = s.beta1 * m[i] + s.one_minus_beta1 * g;
      expected_v[i] = s.beta2 * v[i] + s.one_minus_beta2 * (g * g);
      const float root = std::sqrt(expected_v[i] * s.correction2);
      const float direction = (expected_m[i] * s.correction1) / (root + s.epsilon);
      expected_w[i] = w[i] - s.learning_rate * (direction + s.decay * w[i]);
    }
    kernels().adamw(s, w.data(), m.data(), v.data(), next.data(), count);
    EXPECT_TRUE(SameBits(m, expected_m)) << count;
    EXPECT_TRUE(SameBits(v, expected_v)) << count;
    EXPECT_TRUE(SameBits(next, expected_w)) << count;
  }
}

// Numbers for which a fused multiply-add, an approximate root or flushing of tiny numbers would
// show.
TEST_P(VectorKernelsTest, GivesThePlainBitsForHardNumbers) {
  constexpr size_t kCount = 4096 + 5;
  const VectorKernels& plain = *SupportedKernels()[0];
  std::uniform_int_distribution<uint32_t> any;
  const auto hard = [&](bool negative) {
    std::vector<float> values(kCount);
    for (float& value : values) {
      // Any exponent from the subnormal ones to 2^60, any mantissa.
      const uint32_t bits = (any(random_) % (187u << 23)) | (negative ? any(random_) << 31 : 0);
      std::memcpy(&value, &bits, sizeof(value));
    }
    return values;
  };
  const AdamWStep step = {0.01f, 0.9f, 0.1f, 0.999f, 0.001f, 1.7f, 2.9f, 1e-8f, 0.01f};
  const std::vector<float> w = hard(true);
  const std::vector<float> g = hard(true);
  const std::vector<float> m = hard(true);
  const std::vector<float> v = hard(false);
  std::vector<float> m1 = m, v1 = v, next1 = g;
  std::vector<float> m2 = m, v2 = v, next2 = g;
  plain.adamw(step, w.data(), m1.data(), v1.data(), next1.data(), kCount);
  kernels().adamw(step, w.data(), m2.data(), v2.data(), next2.data(), kCount);
  EXPECT_TRUE(SameBits(m1, m2));
  EXPECT_TRUE(SameBits(v1, v2));
  EXPECT_TRUE(SameBits(next1, next2));

  std::vector<float> out1(kCount);
  std::vector<float> out2(kCount);
  plain.add_divide(Unaligned(w).get(), Unaligned(g).get(), 60000, out1.data(), kCount);
  kernels().add_divide(Unaligned(w).get(), Unaligned(g).get(), 60000, out2.data(), kCount);
  EXPECT_TRUE(SameBits(out1, out2));
}

INSTANTIATE_TEST_SUITE_P(EverySet, VectorKernelsTest,
                         testing::Range<size_t>(0, SupportedKernels().size()),
                         [](const testing::TestParamInfo<size_t>& info) {
                           return std::string(SupportedKernels()[info.param]->name);
                         });

TEST(FastestKernelsTest, IsTheLastOfTheSupportedOnes) {
  EXPECT_EQ(&FastestKernels(), SupportedKernels().back());
  EXPECT_STREQ(SupportedKernels().front()->name, "plain");
}

}  // namespace
}  // namespace sangam
