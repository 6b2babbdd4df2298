// Every optimizer against what PyTorch does (tests/testdata/optimizers.txt).

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/model/optimizer_check.h"
#include "common/model/weight_decay.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "server/core/optimizer.h"
#include "server/core/vector_kernels.h"

namespace sangam {
namespace {

// Of a weight, relative to 1 + |weight|: the reference is computed in double, we have 24 bits at
// each of 20 steps.
constexpr double kTolerance = 1e-6;

// The two parameters of the file.
constexpr uint64_t kFirst = 5;
constexpr uint64_t kSize = 8;

struct Setting {
  v1::OptimizerSpec spec;
  std::vector<std::vector<float>> after;  // weights after each step
};

struct Reference {
  std::vector<float> weights;
  std::vector<std::vector<float>> gradients;
  std::vector<Setting> settings;
};

std::vector<float> Numbers(std::istringstream* line) {
  std::vector<float> numbers;
  for (float number; *line >> number;) numbers.push_back(number);
  SANGAM_CHECK(numbers.size() == kSize);
  return numbers;
}

Reference ReadReference() {
  std::ifstream file("tests/testdata/optimizers.txt");
  Reference reference;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "weights") reference.weights = Numbers(&line);
    if (word == "gradient") reference.gradients.push_back(Numbers(&line));
    if (word == "after") reference.settings.back().after.push_back(Numbers(&line));
    if (word == "optimizer") {
      std::string spec;
      std::getline(line, spec);
      SANGAM_CHECK(google::protobuf::TextFormat::ParseFromString(
          spec, &reference.settings.emplace_back().spec));
    }
  }
  return reference;
}

// What a page and its servers do with one gradient after the other.
class Training {
 public:
  Training(v1::OptimizerSpec spec, std::vector<float> weights)
      : weights_(std::move(weights)), optimizer_(*Optimizer::Create(spec)) {
    ResolveOptimizer(&spec);
    v1::ParameterLayout decayed;
    decayed.set_decay(true);
    ranges_ = {{0, kFirst, 0, WeightDecayOf(spec, decayed), 0}, {kFirst, kSize, 1, 0, 0}};
    for (int i = 0; i < optimizer_.state_count(); ++i) {
      state_[i].assign(kSize, optimizer_.initial_state(i));
    }
  }

  const std::vector<float>& Step(std::vector<float> next) {
    Optimizer::Elements elements;
    elements.count = kSize;
    elements.weights = weights_.data();
    for (int i = 0; i < optimizer_.state_count(); ++i) elements.state[i] = state_[i].data();
    elements.next = next.data();
    elements.ranges = &ranges_;
    const VectorKernels& kernels = FastestKernels();
    StepNumbers numbers;
    numbers.learning_rate = optimizer_.learning_rate();
    numbers.updates = updates_++;
    if (optimizer_.needs_trust_ratios()) {
      std::vector<double> norms;
      optimizer_.Direct(numbers, elements, kernels, &norms);
      std::vector<float> trust;
      for (size_t i = 0; i < norms.size(); i += 2) {
        const double ratio = std::sqrt(norms[i]) / std::sqrt(norms[i + 1]);
        trust.push_back(norms[i] > 0 && norms[i + 1] > 0 ? static_cast<float>(ratio) : 1);
      }
      optimizer_.Apply(numbers, trust, elements, kernels);
    } else {
      optimizer_.Update(numbers, elements, kernels);
    }
    weights_ = std::move(next);
    return weights_;
  }

 private:
  std::vector<float> weights_;
  Optimizer optimizer_;
  std::vector<ParameterRange> ranges_;
  uint64_t updates_ = 0;
  std::array<std::vector<float>, Optimizer::kMaxState> state_;
};

TEST(OptimizerReferenceTest, EveryOptimizerDoesWhatPyTorchDoes) {
  const Reference reference = ReadReference();
  ASSERT_EQ(reference.gradients.size(), 20u);
  std::vector<bool> seen(32);
  for (const Setting& setting : reference.settings) {
    seen[setting.spec.kind_case()] = true;
    ASSERT_EQ(setting.after.size(), reference.gradients.size());
    Training training(setting.spec, reference.weights);
    for (size_t step = 0; step < reference.gradients.size(); ++step) {
      const std::vector<float>& weights = training.Step(reference.gradients[step]);
      for (size_t i = 0; i < kSize; ++i) {
        const auto expected = static_cast<double>(setting.after[step][i]);
        const double error =
            std::fabs(static_cast<double>(weights[i]) - expected) / (1 + std::fabs(expected));
        ASSERT_LE(error, kTolerance)
            << setting.spec.ShortDebugString() << "\nstep " << step << " element " << i
            << ": found " << weights[i] << ", expected " << expected;
      }
    }
  }
  for (const auto kind :
       {v1::OptimizerSpec::kSgd, v1::OptimizerSpec::kMomentum, v1::OptimizerSpec::kAdagrad,
        v1::OptimizerSpec::kRmsprop, v1::OptimizerSpec::kAdam, v1::OptimizerSpec::kAdamw,
        v1::OptimizerSpec::kLamb}) {
    EXPECT_TRUE(seen[kind]) << kind;
  }
}

}  // namespace
}  // namespace sangam
