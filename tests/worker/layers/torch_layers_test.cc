#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/base/casts.h"
#include "google/protobuf/repeated_field.h"
#include "google/protobuf/text_format.h"
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
  std::string kind;  // "case", "tied" or "loss"
  std::string name;
  std::string model;
  std::map<std::string, Values> numbers;

  std::vector<float> Floats(const std::string& what) const {
    const Values& values = numbers.at(what);
    return {values.begin(), values.end()};
  }

  uint64_t Number(const std::string& what) const {
    return static_cast<uint64_t>(numbers.at(what)[0]);
  }

  PassContext Context(bool training) const {
    PassContext context;
    context.training = training;
    const auto address = numbers.find("address");
    if (address == numbers.end()) return context;
    context.seed = static_cast<uint64_t>(address->second[0]);
    context.step = static_cast<uint64_t>(address->second[1]);
    context.first_position = static_cast<uint64_t>(address->second[2]);
    return context;
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
    if (word == "case" || word == "tied" || word == "loss") {
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

// Names of the layers, those within others too.
void AddKinds(const google::protobuf::RepeatedPtrField<v1::LayerSpec>& layers,
              std::set<std::string>* kinds) {
  for (const v1::LayerSpec& layer : layers) {
    const auto* const field = v1::LayerSpec::descriptor()->FindFieldByNumber(layer.kind_case());
    if (field != nullptr) kinds->insert(field->name());
    AddKinds(layer.residual().layer(), kinds);
    AddKinds(layer.residual().shortcut(), kinds);
    for (const auto& branch : layer.concat().branch()) AddKinds(branch.layer(), kinds);
  }
}

TEST(TorchLayersTest, ForwardBackwardAndRunningStatistics) {
  const std::vector<Case> cases = Cases("case");
  ASSERT_GE(cases.size(), 33u);
  for (const Case& given : cases) {
    SCOPED_TRACE(given.name);
    const TestModel model(given.model);
    const auto block = model.NewBlock();
    ASSERT_TRUE(block.ok()) << block.status();
    const std::vector<float> weights = given.Floats("w");
    ASSERT_EQ(static_cast<int64_t>(weights.size()), model.parameter_count());
    const auto samples = static_cast<float>(given.numbers.at("rows")[0]);
    BlockLane lane(**block, given.Number("rows"), weights);
    lane.context = given.Context(true);
    // Tokens have no gradient.
    lane.want_input_gradient = given.numbers.count("dx") > 0;
    const BlockResult result = lane.Run(given.Floats("x"), model.input_size(), given.Floats("dy"));
    ExpectNear(result.y, given.numbers.at("y"), kTolerance);
    if (lane.want_input_gradient) ExpectNear(result.dx, given.numbers.at("dx"), kTolerance);
    ExpectNear(Trained(model, result.dw), given.numbers.at("dw"), 2 * kTolerance);
    ExpectNear(AfterStep(model, weights, result.dw, samples), given.numbers.at("after"),
               kTolerance);

    const PassContext evaluation = given.Context(false);
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

// The head's block computes with the table of the first block: each use has its own gradient.
TEST(TorchLayersTest, BothUsesOfATiedTable) {
  const std::vector<Case> cases = Cases("tied");
  ASSERT_EQ(cases.size(), 2u);
  for (const Case& given : cases) {
    SCOPED_TRACE(given.name);
    const TestModel first(given.model, 0);
    const TestModel second(given.model, 1);
    const auto embedding = first.NewBlock();
    const auto head = second.NewBlock();
    ASSERT_TRUE(embedding.ok()) << embedding.status();
    ASSERT_TRUE(head.ok()) << head.status();
    const std::vector<float> table = given.Floats("w");
    ASSERT_EQ(static_cast<int64_t>(table.size()), first.parameter_count());
    ASSERT_EQ(first.parameter_count(), second.tied_count());

    BlockLane embedding_lane(**embedding, given.Number("rows"), table);
    embedding_lane.want_input_gradient = false;
    const std::vector<float> tokens = given.Floats("x");
    const auto hidden_size = static_cast<size_t>(first.output_size()) * given.Number("rows");
    const std::vector<float> hidden =
        embedding_lane.Run(tokens, first.input_size(), std::vector<float>(hidden_size)).y;
    BlockLane head_lane(**head, given.Number("rows"), given.Floats("own"), BackwardMode::kWhole,
                        table);
    const BlockResult after = head_lane.Run(hidden, second.input_size(), given.Floats("dy"));
    const BlockResult before = embedding_lane.Run(tokens, first.input_size(), after.dx);

    ExpectNear(after.y, given.numbers.at("y"), kTolerance);
    ExpectNear(after.dw, given.numbers.at("down"), 2 * kTolerance);
    ExpectNear(after.dtied, given.numbers.at("dtied"), 2 * kTolerance);
    ExpectNear(before.dw, given.numbers.at("dw"), 2 * kTolerance);
  }
}

// A layer or loss that has been added belongs into the file.
TEST(TorchLayersTest, TheFileHasEveryKind) {
  std::set<std::string> found;
  for (const std::string kind : {"case", "tied"}) {
    for (const Case& given : Cases(kind)) {
      const TestModel model(given.model);
      for (const v1::BlockSpec& block : model.spec.block()) AddKinds(block.layer(), &found);
    }
  }
  for (const Case& given : Cases("loss")) found.insert(given.name);
  for (const auto* const oneof : {v1::LayerSpec::descriptor()->FindOneofByName("kind"),
                                  v1::LossSpec::descriptor()->FindOneofByName("kind")}) {
    for (int i = 0; i < oneof->field_count(); ++i) {
      EXPECT_EQ(found.count(oneof->field(i)->name()), 1u) << oneof->field(i)->full_name();
    }
  }
}

TEST(TorchLayersTest, Losses) {
  const std::vector<Case> cases = Cases("loss");
  ASSERT_EQ(cases.size(), 4u);
  const std::unique_ptr<Backend> backend = *CreateBackend("cpu");
  for (const Case& given : cases) {
    SCOPED_TRACE(given.name);
    v1::LossSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(given.name + " {}", &spec));
    std::vector<uint32_t> labels;
    if (given.numbers.count("labels") > 0) {
      for (const double label : given.numbers.at("labels")) {
        labels.push_back(static_cast<uint32_t>(label));
      }
    } else {
      for (const float target : given.Floats("targets")) {
        labels.push_back(absl::bit_cast<uint32_t>(target));
      }
    }
    const auto loss = Loss::Create(spec, given.Number("terms"));
    ASSERT_TRUE(loss.ok()) << loss.status();
    const std::vector<float> values = given.Floats("outputs");
    constexpr int64_t kRows = 5;
    const auto cols = static_cast<int64_t>(values.size()) / kRows;
    const DeviceMatrix outputs(backend.get(), kRows, cols, values);
    const DeviceMatrix gradient(backend.get(), kRows, cols);
    Matrix to = gradient.view();
    const auto sums =
        testing::Sums((*loss)->Compute(backend.get(), outputs.view(), labels.data(), &to));
    ASSERT_TRUE(sums.ok()) << sums.status();
    EXPECT_NEAR(sums->loss, given.numbers.at("sum")[0], kTolerance);
    EXPECT_EQ(sums->correct, given.Number("correct"));
    ExpectNear(gradient.Read(), given.numbers.at("gradient"), kTolerance);
  }
}

}  // namespace
}  // namespace sangam
