#include "worker/backend/cpu/softmax.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "xxhash.h"

// What the function computes is tested by the conformance test; here: how exactly.
namespace sangam::cpu_kernels {
namespace {

using ::sangam::testing::RandomFloats;

std::vector<float> Gradient(int64_t rows, int64_t classes, ClassificationSums* sums) {
  const std::vector<float> logits = RandomFloats(rows * classes, 1, -6, 6);
  std::vector<uint32_t> labels;
  for (int64_t r = 0; r < rows; ++r) labels.push_back(static_cast<uint32_t>(r % classes));
  std::vector<float> gradient(logits.size());
  *sums = SoftmaxCrossEntropy({logits.data(), rows, classes}, labels.data(), gradient.data());
  return gradient;
}

// Fingerprints as in elementwise_test.cc. (The loss itself takes one logarithm per row from libm.)
TEST(CpuSoftmaxTest, BitsAreTheSameOnEveryMachine) {
  ClassificationSums sums;
  std::vector<float> gradient = Gradient(32, 10, &sums);
  EXPECT_EQ(XXH64(gradient.data(), gradient.size() * sizeof(float), 0), 15791321883502285136u);
  gradient = Gradient(7, 1003, &sums);
  EXPECT_EQ(XXH64(gradient.data(), gradient.size() * sizeof(float), 0), 11778984723517984731u);
}

// A row's loss does not depend on its neighbours: the loss of a batch is the sum of its rows' in
// order.
TEST(CpuSoftmaxTest, LossIsSummedRowAfterRow) {
  const std::vector<float> logits = RandomFloats(20 * 10, 1, -6, 6);
  const std::vector<uint32_t> labels(20, 3);
  double loss = 0;
  uint64_t correct = 0;
  for (int64_t r = 0; r < 20; ++r) {
    const ClassificationSums row =
        SoftmaxCrossEntropy({logits.data() + r * 10, 1, 10}, labels.data(), nullptr);
    loss += row.loss;
    correct += row.correct;
  }
  const ClassificationSums all =
      SoftmaxCrossEntropy({logits.data(), 20, 10}, labels.data(), nullptr);
  EXPECT_EQ(all.loss, loss);
  EXPECT_EQ(all.correct, correct);
}

}  // namespace
}  // namespace sangam::cpu_kernels
