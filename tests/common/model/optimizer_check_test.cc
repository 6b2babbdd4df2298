#include "common/model/optimizer_check.h"

#include <string>
#include <vector>

#include "common/model/field_fault.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

v1::OptimizerSpec Spec(const std::string& text) {
  v1::OptimizerSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

std::string Faults(const std::string& text) {
  std::vector<FieldFault> faults;
  CheckOptimizer(Spec(text), &faults);
  return std::string(ToStatus(faults).message());
}

constexpr const char* kKinds[] = {"sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw", "lamb"};

TEST(CheckOptimizerTest, DefaultsAreGood) {
  for (const std::string kind : kKinds) {
    EXPECT_EQ(Faults("learning_rate: 0.1 " + kind + " {}"), "") << kind;
    EXPECT_EQ(Faults("learning_rate: 0.1 schedule { cosine {} warmup_steps: 100 } "
                     "clipping { max_norm: 1 } decay_group { parameter: '*' } " +
                     kind + " { weight_decay: 0.1 }"),
              "");
  }
  for (const char* schedule : {"", "constant {}", "step { every: 1 }", "linear {}", "cosine {}"}) {
    EXPECT_EQ(Faults("learning_rate: 0.1 sgd {} schedule { " + std::string(schedule) + " }"), "");
  }
}

TEST(CheckOptimizerTest, NamesFieldFoundAndExpected) {
  const struct {
    const char* change;
    const char* fault;
  } cases[] = {
      {"learning_rate: -1", "optimizer.learning_rate: found -1, expected a finite number > 0"},
      {"momentum { momentum: 1 }",
       "optimizer.momentum.momentum: found 1, expected at least 0 and below 1"},
      {"momentum { momentum: nan }", "optimizer.momentum.momentum: found nan"},
      {"adagrad { epsilon: -1 }", "optimizer.adagrad.epsilon: found -1"},
      {"adagrad { initial_accumulator: -1 }", "optimizer.adagrad.initial_accumulator: found -1"},
      {"rmsprop { alpha: 1 }", "optimizer.rmsprop.alpha: found 1"},
      {"rmsprop { epsilon: 0 }", "optimizer.rmsprop.epsilon: found 0"},
      {"rmsprop { momentum: -0.5 }", "optimizer.rmsprop.momentum: found -0.5"},
      {"adam { beta1: 1 }", "optimizer.adam.beta1: found 1"},
      {"adamw { beta2: -1 }", "optimizer.adamw.beta2: found -1"},
      {"lamb { epsilon: inf }", "optimizer.lamb.epsilon: found inf"},
      {"clipping {}", "optimizer.clipping.max_norm: found 0, expected a finite number > 0"},
      {"clipping { max_norm: inf }", "optimizer.clipping.max_norm: found inf"},
      {"schedule { step {} }", "optimizer.schedule.step.every: found 0, expected at least 1"},
      {"schedule { step { every: 1 factor: 0 } }",
       "optimizer.schedule.step.factor: found 0, expected above 0 and at most 1"},
      {"schedule { step { every: 1 factor: 1.5 } }", "optimizer.schedule.step.factor: found 1.5"},
      {"schedule { linear { end: 2 } }", "optimizer.schedule.linear.end: found 2, expected 0 to 1"},
      {"schedule { cosine { end: nan } }", "optimizer.schedule.cosine.end: found nan"},
      {"schedule { cosine { decay_steps: 18446744073709551615 } }",
       "optimizer.schedule.cosine.decay_steps: found 18446744073709551615, expected at most"},
      {"schedule { warmup_steps: 18446744073709551615 }",
       "optimizer.schedule.warmup_steps: found 18446744073709551615"},
      {"schedule { warmup_start: -1 }", "optimizer.schedule.warmup_start: found -1"},
      {"decay_group { weight_decay: 0.5 }", "optimizer.decay_group[0].parameter: found none"},
      {"decay_group { parameter: 'a' } decay_group { parameter: 'b' weight_decay: -1 }",
       "optimizer.decay_group[1].weight_decay: found -1"},
  };
  for (const auto& test : cases) {
    v1::OptimizerSpec spec = Spec("learning_rate: 0.1 sgd {}");
    spec.MergeFrom(Spec(test.change));
    std::vector<FieldFault> faults;
    CheckOptimizer(spec, &faults);
    ASSERT_EQ(faults.size(), 1u) << test.change << "\n" << ToStatus(faults);
    EXPECT_THAT(std::string(ToStatus(faults).message()), StartsWith(test.fault));
  }
  for (const std::string kind : kKinds) {
    EXPECT_THAT(Faults("learning_rate: 1 " + kind + " { weight_decay: nan }"),
                HasSubstr("optimizer." + kind + ".weight_decay: found nan"));
  }
  EXPECT_THAT(Faults("learning_rate: 1"), HasSubstr("optimizer: found no kind, expected sgd"));
}

TEST(CheckOptimizerTest, BoundsTheNumberOfGroups) {
  v1::OptimizerSpec spec = Spec("learning_rate: 1 sgd {}");
  for (int i = 0; i < 257; ++i) spec.add_decay_group()->set_parameter("*");
  std::vector<FieldFault> faults;
  CheckOptimizer(spec, &faults);
  EXPECT_THAT(std::string(ToStatus(faults).message()),
              HasSubstr("optimizer.decay_group: found 257, expected at most 256"));
}

v1::ModelLayout Layout() {
  v1::ModelLayout layout;
  for (const char* name : {"a.0.weight", "a.0.bias", "b.0.running_mean"}) {
    layout.add_segment()->add_parameter()->set_name(name);
  }
  layout.mutable_segment(2)->mutable_parameter(0)->set_average_rate(0.1f);
  return layout;
}

TEST(CheckDecayGroupsTest, NamesWhatMatchesNothingAndWhatThereIs) {
  const auto faults = [](const std::string& pattern) {
    v1::OptimizerSpec spec;
    spec.add_decay_group()->set_parameter("*.weight");
    spec.add_decay_group()->set_parameter(pattern);
    std::vector<FieldFault> found;
    CheckDecayGroups(spec, Layout(), &found);
    return std::string(ToStatus(found).message());
  };
  EXPECT_THAT(faults("a.?.bias"), IsEmpty());
  EXPECT_EQ(faults("a.weight"),
            "optimizer.decay_group[1].parameter: found \"a.weight\", which matches no parameter; "
            "expected the name of one or a pattern with '*' and '?', such as a.0.weight, a.0.bias");
  // Decay does not apply to running statistics.
  EXPECT_THAT(faults("b.*"), HasSubstr("matches no parameter"));
}

TEST(ResolveOptimizerTest, FillsWhatAbsenceMeans) {
  const auto resolved = [](const std::string& text) {
    v1::OptimizerSpec spec = Spec(text);
    ResolveOptimizer(&spec);
    return spec.ShortDebugString();
  };
  const auto same = [](const std::string& text) { return Spec(text).ShortDebugString(); };
  EXPECT_EQ(resolved("sgd {}"), same("sgd { weight_decay: 0 }"));
  EXPECT_EQ(resolved("momentum {}"), same("momentum { weight_decay: 0 }"));
  EXPECT_EQ(resolved("adagrad {}"),
            same("adagrad { epsilon: 1e-10 initial_accumulator: 0 weight_decay: 0 }"));
  EXPECT_EQ(resolved("rmsprop { alpha: 0.5 }"),
            same("rmsprop { alpha: 0.5 epsilon: 1e-8 momentum: 0 weight_decay: 0 }"));
  EXPECT_EQ(resolved("adam { beta1: 0 }"),
            same("adam { beta1: 0 beta2: 0.999 epsilon: 1e-8 weight_decay: 0 }"));
  EXPECT_EQ(resolved("adamw {}"),
            same("adamw { beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.01 }"));
  EXPECT_EQ(resolved("lamb {}"),
            same("lamb { beta1: 0.9 beta2: 0.999 epsilon: 1e-6 weight_decay: 0.01 }"));
  EXPECT_EQ(resolved("schedule { step { every: 3 } }"),
            same("schedule { step { every: 3 factor: 0.1 } warmup_start: 0 }"));
  EXPECT_EQ(resolved("schedule { cosine {} }"),
            same("schedule { cosine { end: 0 } warmup_start: 0 }"));
  EXPECT_EQ(resolved(""), "");
}

}  // namespace
}  // namespace sangam
