#include "worker/backend/cpu/elementwise.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "xxhash.h"

// What the functions compute is tested by the conformance test; here: how exactly.
namespace sangam::cpu_kernels {
namespace {

using ::sangam::testing::RandomFloats;

constexpr int64_t kRows = 37;
constexpr int64_t kCols = 203;

uint64_t Hash(const std::vector<float>& values) {
  return XXH64(values.data(), values.size() * sizeof(float), 0);
}

// Fingerprints of outputs: the same with every compiler, instruction set and sanitizer. A change
// here changes the weights of every job that uses the function.
TEST(ElementwiseTest, BitsAreTheSameOnEveryMachine) {
  const std::vector<float> x = RandomFloats(kRows * kCols, 1, -5, 5);
  const std::vector<float> dy = RandomFloats(kRows * kCols, 2);
  std::vector<float> y(x.size());
  const ConstMatrix in(x.data(), kRows, kCols);
  const ConstMatrix dy_view(dy.data(), kRows, kCols);
  Activate(Activation::kGelu, in, y.data());
  EXPECT_EQ(Hash(y), 3123965297376582614u);
  ActivateBackward(Activation::kGelu, x.data(), dy_view, y.data());
  EXPECT_EQ(Hash(y), 3838905073229450449u);
  Activate(Activation::kTanh, in, y.data());
  EXPECT_EQ(Hash(y), 11415783329657269739u);
  const std::vector<float> tanh = y;
  ActivateBackward(Activation::kTanh, tanh.data(), dy_view, y.data());
  EXPECT_EQ(Hash(y), 10063872634974623733u);
}

// The order of the sum is the plain loop's, so the bits are too.
TEST(ElementwiseTest, SumRowsTakesRowsInOrder) {
  for (const int64_t rows : {1, 3, 4, 5, 37}) {
    const std::vector<float> x = RandomFloats(rows * kCols, 1);
    for (const bool accumulate : {false, true}) {
      std::vector<float> out = RandomFloats(kCols, 2);
      std::vector<float> expected = accumulate ? out : std::vector<float>(kCols, 0.0f);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < kCols; ++j) {
          expected[static_cast<size_t>(j)] += x[static_cast<size_t>(i * kCols + j)];
        }
      }
      SumRows({x.data(), rows, kCols}, accumulate, out.data());
      EXPECT_EQ(out, expected) << rows << " rows";
    }
  }
}

TEST(ElementwiseTest, BiasIsAddedOnceAndRounded) {
  const std::vector<float> x = RandomFloats(kRows * kCols, 1);
  const std::vector<float> bias = RandomFloats(kCols, 2);
  std::vector<float> sum;
  std::vector<float> relu;
  for (size_t i = 0; i < x.size(); ++i) {
    const float value = x[i] + bias[i % kCols];
    sum.push_back(value);
    relu.push_back(value < 0 ? 0.0f : value);
  }
  std::vector<float> y = x;
  AddBias(bias.data(), {y.data(), kRows, kCols});
  EXPECT_EQ(y, sum);
  y = x;
  AddBiasRelu(bias.data(), {y.data(), kRows, kCols});
  EXPECT_EQ(y, relu);
}

}  // namespace
}  // namespace sangam::cpu_kernels
