#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/block_harness.h"
#include "tests/worker/layers/expect_near.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/views.h"
#include "worker/layers/block.h"
#include "worker/layers/loss.h"
#include "worker/layers/pass_context.h"

// Layers and losses against what PyTorch computes: tests/testdata/layers.txt, made by layers.py.
namespace sangam {
namespace {

using testing::BlockLane;
using testing::BlockResult;
using testing::DeviceMatrix;
using testing::ExpectNear;
using testing::TestModel;
using testing::Values;

// PyTorch's numbers are of double precision; ours differ by a few roundings of sums of some ten
// terms that are about 1.
constexpr double kTolerance = 2e-5;

// One case of the file.
struct Case {
  std::string kind;  // "case" or "loss"
  std::string name;
  std::string model;
  std::map<std::string, Values> numbers;

  std::vector<float> Floats(const std::string& what) const {
    const Values& values = numbers.at(what);
    return {values.begin(), values.end()};
  }
};

std::vector<Case> Cases(const std::string& kind) {
  std::ifstream file("tests/testdata/layers.txt");
  EXPECT_TRUE(file.is_open());
  std::vector<Case> cases;
  std::string line;
  while (std::getline(file, line)) {
    const size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "#") continue;
    if (word == "case" || word == "loss") {
      cases.push_back({word, rest, "", {}});
    } else if (word == "model") {
      cases.back().model = rest;
    } else {
      std::istringstream values(rest);
      double value = 0;
      Values& numbers = cases.back().numbers[word];
      while (values >> value) numbers.push_back(value);
    }
  }
  std::vector<Case> wanted;
  for (const Case& each : cases) {
    if (each.kind == kind) wanted.push_back(each);
  }
  return wanted;
}

// The segment after a step that was this one micro-batch, as a server makes it of the running
// statistics; what is trained stays as it is.
std::vector<float> AfterStep(const TestModel& model, const std::vector<float>& weights,
                             const std::vector<float>& gradient, float samples) {
  std::vector<float> after = weights;
  if (model.segment() == nullptr) return after;
  for (const v1::ParameterLayout& parameter : model.segment()->parameter()) {
    const float rate = parameter.average_rate();
    if (rate == 0) continue;
    for (uint64_t e = 0; e < parameter.element_count(); ++e) {
      const size_t i = parameter.offset() + e;
      after[i] = (1 - rate) * weights[i] + rate * (gradient[i] / samples);
    }
  }
  return after;
}

// The gradient without what is a running statistic.
std::vector<float> Trained(const TestModel& model, std::vector<float> gradient) {
  if (model.segment() == nullptr) return gradient;
  for (const v1::ParameterLayout& parameter : model.segment()->parameter()) {
    if (parameter.average_rate() == 0) continue;
    for (uint64_t e = 0; e < parameter.element_count(); ++e) gradient[parameter.offset() + e] = 0;
  }
  return gradient;
}

TEST(TorchLayersTest, ForwardBackwardAndRunningStatistics) {
  const std::vector<Case> cases = Cases("case");
  ASSERT_GE(cases.size(), 24u);
  for (const Case& given : cases) {
    SCOPED_TRACE(given.name);
    const TestModel model(given.model);
    const auto block = model.NewBlock();
    ASSERT_TRUE(block.ok()) << block.status();
    const std::vector<float> weights = given.Floats("w");
    ASSERT_EQ(static_cast<int64_t>(weights.size()), model.parameter_count());
    const auto samples = static_cast<float>(given.numbers.at("rows")[0]);
    BlockLane lane(**block, static_cast<uint64_t>(samples), weights);
    const BlockResult result = lane.Run(given.Floats("x"), model.input_size(), given.Floats("dy"));
    ExpectNear(result.y, given.numbers.at("y"), kTolerance);
    ExpectNear(result.dx, given.numbers.at("dx"), kTolerance);
    ExpectNear(Trained(model, result.dw), given.numbers.at("dw"), 2 * kTolerance);
    ExpectNear(AfterStep(model, weights, result.dw, samples), given.numbers.at("after"),
               kTolerance);

    PassContext evaluation;
    evaluation.training = false;
    const DeviceMatrix x(lane.backend(), static_cast<int64_t>(samples), model.input_size(),
                         given.Floats("x"));
    const DeviceMatrix segment(lane.backend(), 1, model.parameter_count(), weights);
    const auto y = (*block)->Forward(lane.backend(), evaluation, x.view(),
                                     {segment.view().data, nullptr}, lane.state());
    ASSERT_TRUE(y.ok()) << y.status();
    std::vector<float> evaluated(static_cast<size_t>(y->size()));
    ASSERT_TRUE(lane.backend()->Download(*y, evaluated.data()).ok());
    ASSERT_TRUE(lane.backend()->Synchronize().ok());
    ExpectNear(evaluated, given.numbers.at("evaluated"), kTolerance);
  }
}

TEST(TorchLayersTest, Losses) {
  const std::vector<Case> cases = Cases("loss");
  ASSERT_EQ(cases.size(), 3u);
  const std::unique_ptr<Backend> backend = *CreateBackend("cpu");
  for (const Case& given : cases) {
    SCOPED_TRACE(given.name);
    v1::LossSpec spec;
    std::vector<uint32_t> labels;
    uint64_t terms = 4;
    if (given.name == "softmax_cross_entropy") {
      spec.mutable_softmax_cross_entropy();
      terms = 1;
      for (const double label : given.numbers.at("labels")) {
        labels.push_back(static_cast<uint32_t>(label));
      }
    } else {
      if (given.name == "mean_squared_error") spec.mutable_mean_squared_error();
      if (given.name == "binary_cross_entropy") spec.mutable_binary_cross_entropy();
      for (const float target : given.Floats("targets")) {
        labels.push_back(absl::bit_cast<uint32_t>(target));
      }
    }
    const auto loss = Loss::Create(spec, terms);
    ASSERT_TRUE(loss.ok()) << loss.status();
    const DeviceMatrix outputs(backend.get(), 5, 4, given.Floats("outputs"));
    const DeviceMatrix gradient(backend.get(), 5, 4);
    Matrix to = gradient.view();
    const auto sums = (*loss)->Compute(backend.get(), outputs.view(), labels.data(), &to);
    ASSERT_TRUE(sums.ok()) << sums.status();
    EXPECT_NEAR(sums->loss, given.numbers.at("sum")[0], kTolerance);
    ExpectNear(gradient.Read(), given.numbers.at("gradient"), kTolerance);
  }
}

}  // namespace
}  // namespace sangam
