#include "worker/backend/cpu/attention.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/functions.h"
#include "worker/backend/cpu/lanes.h"
#include "worker/backend/cpu/softmax_row.h"
#include "worker/backend/cpu/wide_functions.h"
#include "xxhash.h"

// What the operation computes is tested by the conformance test; here: how exactly.
namespace sangam {
namespace {

using ::sangam::testing::RandomFloats;

struct Sizes {
  int64_t sequences, positions, heads, head_width;
  int64_t rows() const { return sequences * positions; }
  int64_t width() const { return heads * head_width; }
};

struct Result {
  std::vector<float> out, log_sum, gradient;
  bool operator==(const Result& other) const {
    return out == other.out && log_sum == other.log_sum && gradient == other.gradient;
  }
};

std::vector<float> Input(const Sizes& s) {
  return RandomFloats(s.rows() * 3 * s.width(), 1, -2, 2);
}
std::vector<float> OutputGradient(const Sizes& s) { return RandomFloats(s.rows() * s.width(), 2); }

Result Zeros(const Sizes& s) {
  const auto size = static_cast<size_t>(s.rows() * s.width());
  return {std::vector<float>(size), std::vector<float>(static_cast<size_t>(s.rows() * s.heads)),
          std::vector<float>(3 * size)};
}

Result Attend(CpuAttention* attention, const Sizes& s) {
  const std::vector<float> x = Input(s);
  const std::vector<float> dy = OutputGradient(s);
  Result result = Zeros(s);
  AttentionShape shape;
  shape.positions = s.positions;
  shape.heads = s.heads;
  const ConstMatrix qkv(x.data(), s.rows(), 3 * s.width());
  EXPECT_TRUE(attention->Forward(shape, qkv, result.out.data(), result.log_sum.data()).ok());
  EXPECT_TRUE(attention
                  ->Backward(shape, qkv, result.out.data(), result.log_sum.data(), dy.data(),
                             result.gradient.data())
                  .ok());
  return result;
}

// One head of one sequence as plain loops: the order of every sum.
class PlainHead {
 public:
  PlainHead(const Sizes& s, int64_t sequence, int64_t head, const std::vector<float>& x,
            const std::vector<float>& dy, Result* result)
      : s_(s),
        scale_(1.0f / std::sqrt(static_cast<float>(s.head_width))),
        log_sum_(result->log_sum.data() + sequence * s.positions * s.heads + head) {
    const int64_t at = sequence * s.positions * s.width() + head * s.head_width;
    const int64_t at_qkv = sequence * s.positions * 3 * s.width() + head * s.head_width;
    q_ = x.data() + at_qkv;
    dy_ = dy.data() + at;
    y_ = result->out.data() + at;
    dq_ = result->gradient.data() + at_qkv;
  }

  void Run() {
    for (int64_t t = 0; t < s_.positions; ++t) {
      std::vector<float> p = Scores(t);
      const float largest = cpu_kernels::Largest(p.data(), t + 1);
      const float sum = cpu_kernels::SumOfExp(p.data(), t + 1, largest, p.data());
      log_sum_[t * s_.heads] = static_cast<float>(largest + cpu_functions::WideLog(sum));
      for (int64_t j = 0; j < s_.head_width; ++j) {
        float total = 0;
        for (int64_t u = 0; u <= t; ++u) total += p[Index(u)] * Value(u, j);
        y_[t * s_.width() + j] = total * (1.0f / sum);
      }
    }
    for (int64_t t = 0; t < s_.positions; ++t) RunBackward(t);
  }

 private:
  static size_t Index(int64_t u) { return static_cast<size_t>(u); }
  int64_t Place(int64_t t, int64_t part, int64_t j) const {
    return (t * 3 + part) * s_.width() + j;
  }
  float Query(int64_t t, int64_t j) const { return q_[Place(t, 0, j)]; }
  float Key(int64_t t, int64_t j) const { return q_[Place(t, 1, j)]; }
  float Value(int64_t t, int64_t j) const { return q_[Place(t, 2, j)]; }
  float OutGradient(int64_t t, int64_t j) const { return dy_[t * s_.width() + j]; }

  std::vector<float> Scores(int64_t t) const {
    std::vector<float> scores;
    for (int64_t u = 0; u <= t; ++u) {
      float score = 0;
      for (int64_t j = 0; j < s_.head_width; ++j) score += Query(t, j) * Key(u, j);
      scores.push_back(score * scale_);
    }
    return scores;
  }

  // Gradients of keys and values grow query after query.
  void RunBackward(int64_t t) {
    const std::vector<float> scores = Scores(t);
    const float common = cpu_kernels::SumInLanes(
        s_.head_width, [&](int64_t j) { return y_[t * s_.width() + j] * OutGradient(t, j); });
    for (int64_t u = 0; u <= t; ++u) {
      const float p = cpu_functions::Exp(scores[Index(u)] - log_sum_[t * s_.heads]);
      float dp = 0;
      for (int64_t j = 0; j < s_.head_width; ++j) dp += OutGradient(t, j) * Value(u, j);
      const float ds = (p * (dp - common)) * scale_;
      for (int64_t j = 0; j < s_.head_width; ++j) {
        dq_[Place(t, 0, j)] += ds * Key(u, j);
        dq_[Place(u, 1, j)] += ds * Query(t, j);
        dq_[Place(u, 2, j)] += p * OutGradient(t, j);
      }
    }
  }

  Sizes s_;
  float scale_;
  const float* q_;
  const float* dy_;
  float* y_;
  float* log_sum_;
  float* dq_;
};

TEST(CpuAttentionTest, SumsGoOverWidthKeysAndQueriesInOrder) {
  for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{2, 6, 3, 5}, Sizes{1, 35, 2, 16},
                         Sizes{1, 70, 1, 33}, Sizes{2, 64, 2, 32}, Sizes{1, 131, 1, 20}}) {
    Result expected = Zeros(s);
    const std::vector<float> x = Input(s);
    const std::vector<float> dy = OutputGradient(s);
    for (int64_t sequence = 0; sequence < s.sequences; ++sequence) {
      for (int64_t head = 0; head < s.heads; ++head) {
        PlainHead(s, sequence, head, x, dy, &expected).Run();
      }
    }
    CpuAttention attention;
    const Result result = Attend(&attention, s);
    EXPECT_EQ(result.out, expected.out) << s.positions;
    EXPECT_EQ(result.log_sum, expected.log_sum) << s.positions;
    EXPECT_EQ(result.gradient, expected.gradient) << s.positions;
  }
}

// A fingerprint as in elementwise_test.cc.
TEST(CpuAttentionTest, BitsAreTheSameOnEveryMachine) {
  CpuAttention attention;
  const Result result = Attend(&attention, {2, 75, 3, 24});
  const auto hash = [](const std::vector<float>& values) {
    return XXH64(values.data(), values.size() * sizeof(float), 0);
  };
  EXPECT_EQ(hash(result.out), 13797754204767517129u);
  EXPECT_EQ(hash(result.log_sum), 15586608208286872508u);
  EXPECT_EQ(hash(result.gradient), 14689961051650118620u);
}

TEST(CpuAttentionTest, BitsDoNotDependOnEarlierShapes) {
  CpuAttention used;
  const Sizes sizes = {1, 19, 2, 7};
  const Result first = Attend(&used, sizes);
  Attend(&used, {1, 150, 1, 40});  // leaves its numbers in the scratch memory
  EXPECT_TRUE(Attend(&used, sizes) == first);
}

}  // namespace
}  // namespace sangam
