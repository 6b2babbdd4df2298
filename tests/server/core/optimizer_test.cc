#include "server/core/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "server/core/vector_kernels.h"
#include "tests/server/core/naive_merge.h"

namespace sangam {
namespace {

v1::OptimizerSpec Sgd(float learning_rate) {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(learning_rate);
  spec.mutable_sgd();
  return spec;
}

v1::OptimizerSpec Momentum(float learning_rate, float momentum) {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(learning_rate);
  spec.mutable_momentum()->set_momentum(momentum);
  return spec;
}

v1::OptimizerSpec AdamW(float learning_rate) {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(learning_rate);
  spec.mutable_adamw();
  return spec;
}

// Weights and state of one run of training, kept by an Optimizer.
class Training {
 public:
  Training(const v1::OptimizerSpec& spec, std::vector<float> weights,
           std::vector<ElementRange> decay)
      : optimizer_(*Optimizer::Create(spec)),
        weights_(std::move(weights)),
        decay_(std::move(decay)) {
    for (std::vector<float>& state : state_) state.assign(weights_.size(), 0);
  }

  void Step(uint64_t step, std::vector<float> gradient,
            const VectorKernels& kernels = FastestKernels()) {
    Optimizer::Elements elements;
    elements.count = weights_.size();
    elements.weights = weights_.data();
    for (int i = 0; i < optimizer_.state_count(); ++i) elements.state[i] = state_[i].data();
    elements.next = gradient.data();
    elements.decay = &decay_;
    optimizer_.Update(step, elements, kernels);
    weights_ = std::move(gradient);
  }

  const std::vector<float>& weights() const { return weights_; }
  const std::vector<float>& state(int i) const { return state_[i]; }
  const Optimizer& optimizer() const { return optimizer_; }

 private:
  Optimizer optimizer_;
  std::vector<float> weights_;
  std::vector<ElementRange> decay_;
  std::array<std::vector<float>, Optimizer::kMaxState> state_;
};

TEST(OptimizerTest, StateCountFollowsTheKind) {
  EXPECT_EQ(Optimizer::Create(Sgd(1))->state_count(), 0);
  EXPECT_EQ(Optimizer::Create(Momentum(1, 0.5f))->state_count(), 1);
  EXPECT_EQ(Optimizer::Create(AdamW(1))->state_count(), 2);
}

TEST(OptimizerTest, SgdMatchesDoublePrecision) {
  std::mt19937 random(1);
  const std::vector<float> w = RandomFloats(100, &random);
  const std::vector<float> g = RandomFloats(100, &random);
  Training run(Sgd(0.125f), w, {});
  run.Step(0, g);
  for (size_t i = 0; i < w.size(); ++i) {
    EXPECT_NEAR(run.weights()[i], w[i] - 0.125 * g[i], 1e-6);
  }
}

TEST(OptimizerTest, MomentumMatchesDoublePrecisionOverSteps) {
  std::mt19937 random(2);
  const std::vector<float> w = RandomFloats(100, &random);
  Training run(Momentum(0.1f, 0.9f), w, {});
  std::vector<double> expected(w.begin(), w.end());
  std::vector<double> v(100, 0);
  for (uint64_t step = 0; step < 20; ++step) {
    const std::vector<float> g = RandomFloats(100, &random);
    run.Step(step, g);
    for (size_t i = 0; i < 100; ++i) {
      v[i] = static_cast<double>(0.9f) * v[i] + g[i];
      expected[i] -= static_cast<double>(0.1f) * v[i];
      EXPECT_NEAR(run.weights()[i], expected[i], 3e-5 * (1 + std::fabs(expected[i])));
    }
  }
}

// Loshchilov & Hutter 2019, Algorithm 2, in double.
struct AdamWReference {
  double rate, beta1, beta2, epsilon;
  std::vector<double> w, m, v, decay;

  void Step(uint64_t step, const std::vector<float>& gradient) {
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = gradient[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double t = static_cast<double>(step + 1);
      const double m_hat = m[i] / (1 - std::pow(beta1, t));
      const double v_hat = v[i] / (1 - std::pow(beta2, t));
      w[i] -= rate * (m_hat / (std::sqrt(v_hat) + epsilon) + decay[i] * w[i]);
    }
  }
};

TEST(OptimizerTest, AdamWMatchesDoublePrecisionOverSteps) {
  constexpr size_t kSize = 200;
  std::mt19937 random(3);
  v1::OptimizerSpec spec = AdamW(0.01f);
  spec.mutable_adamw()->set_weight_decay(0.25f);
  const std::vector<float> w = RandomFloats(kSize, &random);
  Training run(spec, w, {{0, 33}, {100, 150}});
  const std::vector<double> zero(kSize, 0);
  AdamWReference reference{0.01f, 0.9f, 0.999f, 1e-8f, {w.begin(), w.end()}, zero, zero, zero};
  for (size_t i = 0; i < kSize; ++i) {
    if (i < 33 || (i >= 100 && i < 150)) reference.decay[i] = 0.25;
  }
  for (uint64_t step = 0; step < 50; ++step) {
    const std::vector<float> g = RandomFloats(kSize, &random);
    run.Step(step, g);
    reference.Step(step, g);
    for (size_t i = 0; i < kSize; ++i) {
      ASSERT_NEAR(run.weights()[i], reference.w[i], 3e-6 * (1 + std::fabs(reference.w[i])))
          << "step " << step << " element " << i;
    }
  }
}

// At the first step the corrections undo the averages, so m_hat / sqrt(v_hat) is the gradient's
// sign.
TEST(OptimizerTest, FirstStepOfAdamWMovesByTheLearningRate) {
  v1::OptimizerSpec spec = AdamW(0.5f);
  spec.mutable_adamw()->set_weight_decay(0);
  Training run(spec, {1, 1, 1}, {{0, 3}});
  run.Step(0, {4, -0.25f, 0});
  EXPECT_NEAR(run.weights()[0], 0.5, 1e-6);
  EXPECT_NEAR(run.weights()[1], 1.5, 1e-6);
  EXPECT_EQ(run.weights()[2], 1);
}

TEST(OptimizerTest, DecayAppliesExactlyToItsRanges) {
  v1::OptimizerSpec spec = AdamW(1);
  spec.mutable_adamw()->set_weight_decay(0.5f);
  Training run(spec, std::vector<float>(100, 8), {{1, 20}, {20, 21}, {50, 99}});
  run.Step(0, std::vector<float>(100, 0));
  for (size_t i = 0; i < 100; ++i) {
    const bool decays = (i >= 1 && i < 21) || (i >= 50 && i < 99);
    EXPECT_EQ(run.weights()[i], decays ? 4 : 8) << i;
  }
}

TEST(OptimizerTest, AbsentNumbersOfAdamWHaveTheDocumentedDefaults) {
  v1::OptimizerSpec explicit_spec = AdamW(0.01f);
  explicit_spec.mutable_adamw()->set_beta1(0.9f);
  explicit_spec.mutable_adamw()->set_beta2(0.999f);
  explicit_spec.mutable_adamw()->set_epsilon(1e-8f);
  explicit_spec.mutable_adamw()->set_weight_decay(0.01f);
  std::mt19937 random(4);
  const std::vector<float> w = RandomFloats(64, &random);
  Training implied(AdamW(0.01f), w, {{0, 64}});
  Training stated(explicit_spec, w, {{0, 64}});
  for (uint64_t step = 0; step < 3; ++step) {
    const std::vector<float> g = RandomFloats(64, &random);
    implied.Step(step, g);
    stated.Step(step, g);
  }
  EXPECT_TRUE(SameBits(implied.weights(), stated.weights()));
}

// Elements stand alone: cutting the range anywhere, with any instruction set, gives the same bits.
TEST(OptimizerTest, BitsDoNotDependOnWhereRangesBeginOrOnTheInstructionSet) {
  constexpr size_t kSize = 1025;
  std::mt19937 random(5);
  const std::vector<float> w = RandomFloats(kSize, &random);
  const std::vector<float> g = RandomFloats(kSize, &random);
  for (const v1::OptimizerSpec& spec : {Sgd(0.1f), Momentum(0.1f, 0.9f), AdamW(0.1f)}) {
    Training whole(spec, w, {{3, 700}});
    whole.Step(6, g, *SupportedKernels()[0]);
    for (const VectorKernels* kernels : SupportedKernels()) {
      for (size_t cut : {1, 3, 16, 500, 701, 1024}) {
        const auto part = [&](size_t begin, size_t end) {
          std::vector<ElementRange> decay;
          const size_t first = std::max<size_t>(begin, 3);
          const size_t last = std::min<size_t>(end, 700);
          if (first < last) decay.push_back({first - begin, last - begin});
          Training run(spec, {w.data() + begin, w.data() + end}, decay);
          run.Step(6, {g.data() + begin, g.data() + end}, *kernels);
          return run.weights();
        };
        std::vector<float> joined = part(0, cut);
        const std::vector<float> rest = part(cut, kSize);
        joined.insert(joined.end(), rest.begin(), rest.end());
        ASSERT_TRUE(SameBits(joined, whole.weights())) << kernels->name << " cut " << cut;
      }
    }
  }
}

// The order of operations that vector_kernels.h writes down, with the factors of each step computed
// in double by the mathematical library.
TEST(OptimizerTest, AdamWHasTheBitsOfItsWrittenOrder) {
  constexpr size_t kSize = 300;
  std::mt19937 random(6);
  std::vector<float> w = RandomFloats(kSize, &random);
  Training run(AdamW(0.02f), w, {{0, kSize}});
  std::vector<float> m(kSize, 0);
  std::vector<float> v(kSize, 0);
  for (uint64_t step = 0; step < 30; ++step) {
    const std::vector<float> g = RandomFloats(kSize, &random);
    const double t = static_cast<double>(step + 1);
    const float c1 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(0.9f), t)));
    const float c2 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(0.999f), t)));
    const float rest1 = static_cast<float>(1 - static_cast<double>(0.9f));
    const float rest2 = static_cast<float>(1 - static_cast<double>(0.999f));
    for (size_t i = 0; i < kSize; ++i) {
      m[i] = 0.9f * m[i] + rest1 * g[i];
      v[i] = 0.999f * v[i] + rest2 * (g[i] * g[i]);
      const float direction = (m[i] * c1) / (std::sqrt(v[i] * c2) + 1e-8f);
      w[i] = w[i] - 0.02f * (direction + 0.01f * w[i]);
    }
    run.Step(step, g);
    ASSERT_TRUE(SameBits(run.weights(), w)) << step;
    ASSERT_TRUE(SameBits(run.state(0), m)) << step;
    ASSERT_TRUE(SameBits(run.state(1), v)) << step;
  }
}

TEST(OptimizerTest, VeryLateStepsNeedNoCorrection) {
  Training run(AdamW(0.1f), {1}, {});
  run.Step(uint64_t{1} << 62, {2});
  EXPECT_TRUE(std::isfinite(run.weights()[0]));
  const float m = static_cast<float>(1 - static_cast<double>(0.9f)) * 2;
  EXPECT_EQ(run.state(0)[0], m);
}

TEST(OptimizerTest, RefusesNumbersOutOfRangeAndNamesThem) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  const auto refused = [](const v1::OptimizerSpec& spec, const std::string& field) {
    const absl::Status status = Optimizer::Create(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(field), std::string::npos) << status;
  };
  for (float rate : {0.0f, -1.0f, nan, infinite}) refused(Sgd(rate), "optimizer.learning_rate");
  for (float momentum : {-0.1f, 1.0f, nan}) {
    refused(Momentum(1, momentum), "optimizer.momentum.momentum");
  }
  for (float bad : {-0.1f, 1.0f, nan}) {
    v1::OptimizerSpec spec = AdamW(1);
    spec.mutable_adamw()->set_beta1(bad);
    refused(spec, "optimizer.adamw.beta1");
    spec = AdamW(1);
    spec.mutable_adamw()->set_beta2(bad);
    refused(spec, "optimizer.adamw.beta2");
  }
  for (float bad : {0.0f, -1.0f, nan, infinite}) {
    v1::OptimizerSpec spec = AdamW(1);
    spec.mutable_adamw()->set_epsilon(bad);
    refused(spec, "optimizer.adamw.epsilon");
  }
  for (float bad : {-1.0f, nan, infinite}) {
    v1::OptimizerSpec spec = AdamW(1);
    spec.mutable_adamw()->set_weight_decay(bad);
    refused(spec, "optimizer.adamw.weight_decay");
  }
  v1::OptimizerSpec none;
  none.set_learning_rate(1);
  refused(none, "one of sgd, momentum, adamw");
}

}  // namespace
}  // namespace sangam
