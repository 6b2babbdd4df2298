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
#include "common/base/check.h"
#include "common/model/optimizer_state.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "server/core/vector_kernels.h"
#include "tests/server/core/naive_merge.h"

namespace sangam {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

v1::OptimizerSpec Spec(const std::string& text) {
  v1::OptimizerSpec spec;
  SANGAM_CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

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
  // Without ranges all weights are trained, without decay.
  Training(const v1::OptimizerSpec& spec, std::vector<float> weights,
           std::vector<ParameterRange> ranges = {})
      : optimizer_(*Optimizer::Create(spec)),
        weights_(std::move(weights)),
        ranges_(std::move(ranges)) {
    if (ranges_.empty()) ranges_ = {{0, weights_.size(), 0, 0, 0}};
    for (int i = 0; i < optimizer_.state_count(); ++i) {
      state_[i].assign(weights_.size(), optimizer_.initial_state(i));
    }
    numbers_.learning_rate = optimizer_.learning_rate();
  }

  void Step(uint64_t updates, std::vector<float> gradient,
            const VectorKernels& kernels = FastestKernels()) {
    numbers_.updates = updates;
    Optimizer::Elements elements = Elements(&gradient);
    if (optimizer_.needs_trust_ratios()) {
      optimizer_.Direct(numbers_, elements, kernels, &norms_);
      optimizer_.Apply(numbers_, std::vector<float>(ranges_.size(), trust_), elements, kernels);
    } else {
      optimizer_.Update(numbers_, elements, kernels);
    }
    weights_ = std::move(gradient);
  }

  Optimizer::Elements Elements(std::vector<float>* next) {
    Optimizer::Elements elements;
    elements.count = weights_.size();
    elements.weights = weights_.data();
    for (int i = 0; i < optimizer_.state_count(); ++i) elements.state[i] = state_[i].data();
    elements.next = next->data();
    elements.ranges = &ranges_;
    return elements;
  }

  void set_scale(float scale) { numbers_.scale = scale; }
  void set_trust(float trust) { trust_ = trust; }
  const std::vector<double>& norms() const { return norms_; }

  const std::vector<float>& weights() const { return weights_; }
  const std::vector<float>& state(int i) const { return state_[i]; }
  const Optimizer& optimizer() const { return optimizer_; }

 private:
  Optimizer optimizer_;
  std::vector<float> weights_;
  std::vector<ParameterRange> ranges_;
  StepNumbers numbers_;
  float trust_ = 1;
  std::vector<double> norms_;
  std::array<std::vector<float>, Optimizer::kMaxState> state_;
};

// Every optimizer, with numbers that make all of its formula count.
std::vector<v1::OptimizerSpec> EveryKind() {
  std::vector<v1::OptimizerSpec> specs;
  for (const char* kind :
       {"sgd {}", "momentum { momentum: 0.9 }", "momentum { momentum: 0.9 nesterov: true }",
        "adagrad { initial_accumulator: 0.1 }", "rmsprop {}", "rmsprop { momentum: 0.9 }",
        "rmsprop { centered: true }", "rmsprop { centered: true momentum: 0.9 }", "adam {}",
        "adamw {}", "lamb {}"}) {
    specs.push_back(Spec(std::string("learning_rate: 0.1 ") + kind));
  }
  return specs;
}

TEST(OptimizerTest, KeepsTheStatesOfItsKind) {
  const auto names = [](const std::string& kind) {
    const Optimizer optimizer = *Optimizer::Create(Spec("learning_rate: 1 " + kind));
    std::string text;
    for (int i = 0; i < optimizer.state_count(); ++i) {
      text += std::string(i > 0 ? " " : "") + optimizer.state_name(i);
    }
    return text;
  };
  EXPECT_EQ(names("sgd {}"), "");
  EXPECT_EQ(names("momentum {}"), "momentum_buffer");
  EXPECT_EQ(names("adagrad {}"), "sum");
  EXPECT_EQ(names("rmsprop {}"), "square_avg");
  EXPECT_EQ(names("rmsprop { momentum: 0.5 }"), "square_avg momentum_buffer");
  EXPECT_EQ(names("rmsprop { centered: true }"), "square_avg grad_avg");
  EXPECT_EQ(names("rmsprop { centered: true momentum: 0.5 }"),
            "square_avg grad_avg momentum_buffer");
  EXPECT_EQ(names("adam {}"), "exp_avg exp_avg_sq");
  EXPECT_EQ(names("adamw {}"), "exp_avg exp_avg_sq");
  EXPECT_EQ(names("lamb {}"), "exp_avg exp_avg_sq");
  for (const v1::OptimizerSpec& spec : EveryKind()) {
    EXPECT_LE(OptimizerStateNames(spec).size(), size_t{Optimizer::kMaxState});
    EXPECT_EQ(Optimizer::Create(spec)->needs_trust_ratios(), spec.has_lamb());
    EXPECT_EQ(Optimizer::Create(spec)->initial_state(0), spec.has_adagrad() ? 0.1f : 0);
  }
}

TEST(OptimizerTest, SgdMatchesDoublePrecision) {
  std::mt19937 random(1);
  const std::vector<float> w = RandomFloats(100, &random);
  const std::vector<float> g = RandomFloats(100, &random);
  Training run(Sgd(0.125f), w);
  run.Step(0, g);
  for (size_t i = 0; i < w.size(); ++i) {
    EXPECT_NEAR(run.weights()[i], w[i] - 0.125 * g[i], 1e-6);
  }
}

TEST(OptimizerTest, MomentumMatchesDoublePrecisionOverSteps) {
  std::mt19937 random(2);
  const std::vector<float> w = RandomFloats(100, &random);
  Training run(Momentum(0.1f, 0.9f), w);
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
  const std::vector<float> w = RandomFloats(kSize, &random);
  Training run(AdamW(0.01f), w, {{0, 33, 0, 0.25f}, {33, 100}, {100, 150, 1, 0.25f}, {150, kSize}});
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
  Training run(AdamW(0.5f), {1, 1, 1});
  run.Step(0, {4, -0.25f, 0});
  EXPECT_NEAR(run.weights()[0], 0.5, 1e-6);
  EXPECT_NEAR(run.weights()[1], 1.5, 1e-6);
  EXPECT_EQ(run.weights()[2], 1);
}

// With gradients of 0, decay alone moves a weight.
TEST(OptimizerTest, DecayAppliesExactlyToItsRanges) {
  for (const v1::OptimizerSpec& spec : EveryKind()) {
    Training run(
        spec, std::vector<float>(100, 8),
        {{0, 1}, {1, 20, 1, 0.5f}, {20, 21, 2, 0.5f}, {21, 50}, {50, 99, 4, 0.5f}, {99, 100}});
    run.Step(0, std::vector<float>(100, 0));
    for (size_t i = 0; i < 100; ++i) {
      const bool decays = (i >= 1 && i < 21) || (i >= 50 && i < 99);
      EXPECT_EQ(run.weights()[i] < 8, decays) << spec.ShortDebugString() << " element " << i;
      if (!decays) {
        EXPECT_EQ(run.weights()[i], 8);
      }
    }
    if (spec.has_adamw()) {
      EXPECT_NEAR(run.weights()[1], 8 * (1 - 0.1 * 0.5), 1e-6);
    }
    if (spec.has_sgd()) {
      EXPECT_NEAR(run.weights()[1], 8 - 0.1 * 0.5 * 8, 1e-6);
    }
  }
}

// Running statistics follow their means whatever optimizer, rate and scale the others have.
TEST(OptimizerTest, AveragedRangesAreAveraged) {
  for (const v1::OptimizerSpec& spec : EveryKind()) {
    Training run(spec, {1, 2, 3}, {{0, 1}, {1, 3, 1, 0, 0.25f}});
    run.set_scale(0.5f);
    run.Step(3, {4, 6, 7});
    EXPECT_NE(run.weights()[0], 1);
    EXPECT_EQ(run.weights()[1], 3);
    EXPECT_EQ(run.weights()[2], 4);
    for (int i = 0; i < run.optimizer().state_count(); ++i) {
      EXPECT_EQ(run.state(i)[1], run.optimizer().initial_state(i));
    }
  }
}

// Clipping: the scaled gradient, before everything else.
TEST(OptimizerTest, ScaleMultipliesTheGradientFirst) {
  std::mt19937 random(7);
  const std::vector<float> w = RandomFloats(50, &random);
  for (const v1::OptimizerSpec& spec : EveryKind()) {
    Training scaled(spec, w, {{0, 50, 0, 0.01f}});
    Training plain(spec, w, {{0, 50, 0, 0.01f}});
    scaled.set_scale(0.37f);
    for (uint64_t step = 0; step < 3; ++step) {
      std::vector<float> g = RandomFloats(50, &random);
      scaled.Step(step, g);
      for (float& x : g) x *= 0.37f;
      plain.Step(step, g);
    }
    EXPECT_TRUE(SameBits(scaled.weights(), plain.weights())) << spec.ShortDebugString();
  }
}

// A job that is resumed counts its updates on, and its steps may have been skipped.
TEST(OptimizerTest, BiasCorrectionsFollowTheUpdates) {
  Training first(AdamW(0.1f), {1});
  Training later(AdamW(0.1f), {1});
  first.Step(0, {2});
  later.Step(100, {2});
  // m = 0.2 and v = 0.004, each divided by its correction.
  EXPECT_NEAR(first.weights()[0], 0.9, 1e-6);
  const double m = 0.2 / (1 - std::pow(0.9, 101));
  const double v = 0.004 / (1 - std::pow(0.999, 101));
  EXPECT_NEAR(later.weights()[0], 1 - 0.1 * m / std::sqrt(v), 1e-6);
}

TEST(OptimizerTest, LambGivesNormsAndMovesByTheTrust) {
  Training run(Spec("learning_rate: 0.5 lamb { epsilon: 1e-12 }"), {3, 4, 1, 2},
               {{0, 2, 0, 0}, {2, 3, 1, 0, 0.5f}, {3, 4, 2, 0.25f}});
  run.set_trust(0.5f);
  run.Step(0, {4, -2, 9, 1});
  // At the first step u is the gradient's sign; r = u + d * w.
  EXPECT_THAT(run.norms(), ElementsAre(DoubleNear(25, 1e-5), DoubleNear(2, 1e-5), 0, 0,
                                       DoubleNear(4, 1e-5), DoubleNear(2.25, 1e-5)));
  EXPECT_NEAR(run.weights()[0], 3 - 0.25, 1e-6);
  EXPECT_NEAR(run.weights()[1], 4 + 0.25, 1e-6);
  EXPECT_EQ(run.weights()[2], 5);
  EXPECT_NEAR(run.weights()[3], 2 - 0.25 * 1.5, 1e-6);
}

TEST(OptimizerTest, SquaredNormLeavesOutAverages) {
  Training run(Sgd(1), {0, 0, 0, 0}, {{0, 1}, {1, 3, 1, 0, 0.5f}, {3, 4}});
  std::vector<float> g = {3, 100, 100, 4};
  EXPECT_EQ(Optimizer::SquaredNorm(run.Elements(&g), FastestKernels()), 25);
}

TEST(OptimizerTest, SquaredNormHasTheSameBitsWithEveryInstructionSet) {
  std::mt19937 random(8);
  std::vector<float> g = RandomFloats(1025, &random);
  Training run(Sgd(1), g, {{0, 333}, {333, 1025}});
  const double expected = Optimizer::SquaredNorm(run.Elements(&g), *SupportedKernels()[0]);
  double plain = 0;
  for (const float x : g) plain += static_cast<double>(x) * static_cast<double>(x);
  EXPECT_NEAR(expected, plain, 1e-12 * plain);
  for (const VectorKernels* kernels : SupportedKernels()) {
    EXPECT_EQ(Optimizer::SquaredNorm(run.Elements(&g), *kernels), expected) << kernels->name;
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
  Training implied(AdamW(0.01f), w);
  Training stated(explicit_spec, w);
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
  for (const v1::OptimizerSpec& spec : EveryKind()) {
    Training whole(spec, w, {{0, 3}, {3, 700, 1, 0.01f}, {700, kSize, 2, 0, 0.1f}});
    whole.Step(6, g, *SupportedKernels()[0]);
    for (const VectorKernels* kernels : SupportedKernels()) {
      for (size_t cut : {1, 3, 16, 500, 701, 1024}) {
        const auto part = [&](size_t begin, size_t end) {
          std::vector<ParameterRange> ranges;
          for (const ParameterRange& range :
               {ParameterRange{0, 3, 0, 0, 0}, {3, 700, 1, 0.01f, 0}, {700, kSize, 2, 0, 0.1f}}) {
            const uint64_t first = std::max<uint64_t>(begin, range.begin);
            const uint64_t last = std::min<uint64_t>(end, range.end);
            if (first >= last) continue;
            ranges.push_back(range);
            ranges.back().begin = first - begin;
            ranges.back().end = last - begin;
          }
          Training run(spec, {w.data() + begin, w.data() + end}, ranges);
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
  Training run(AdamW(0.02f), w, {{0, kSize, 0, 0.01f}});
  std::vector<float> m(kSize, 0);
  std::vector<float> v(kSize, 0);
  for (uint64_t step = 0; step < 30; ++step) {
    const std::vector<float> g = RandomFloats(kSize, &random);
    const double t = static_cast<double>(step + 1);
    const float step_size = static_cast<float>(static_cast<double>(0.02f) /
                                               (1 - std::pow(static_cast<double>(0.9f), t)));
    const float root_correction =
        static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(0.999f), t)));
    const float shrink =
        static_cast<float>(1 - static_cast<double>(0.02f) * static_cast<double>(0.01f));
    const float rest1 = static_cast<float>(1 - static_cast<double>(0.9f));
    const float rest2 = static_cast<float>(1 - static_cast<double>(0.999f));
    for (size_t i = 0; i < kSize; ++i) {
      m[i] = 0.9f * m[i] + rest1 * g[i];
      v[i] = 0.999f * v[i] + (rest2 * g[i]) * g[i];
      w[i] = w[i] * shrink - (step_size * m[i]) / (std::sqrt(v[i]) * root_correction + 1e-8f);
    }
    run.Step(step, g);
    ASSERT_TRUE(SameBits(run.weights(), w)) << step;
    ASSERT_TRUE(SameBits(run.state(0), m)) << step;
    ASSERT_TRUE(SameBits(run.state(1), v)) << step;
  }
}

TEST(OptimizerTest, VeryLateStepsNeedNoCorrection) {
  Training run(AdamW(0.1f), {1});
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
  refused(none, "expected sgd, momentum, adagrad");
}

}  // namespace
}  // namespace sangam
