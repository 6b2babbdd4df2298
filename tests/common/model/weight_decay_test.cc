#include "common/model/weight_decay.h"

#include <string>

#include "common/model/optimizer_check.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

TEST(MatchesPatternTest, FollowsStarsAndQuestionMarks) {
  const struct {
    const char* pattern;
    const char* name;
    bool matches;
  } cases[] = {
      {"a.0.weight", "a.0.weight", true},
      {"a.0.weight", "a.0.weights", false},
      {"a.0.weight", "a.0.weigh", false},
      {"*", "", true},
      {"*", "anything", true},
      {"?", "", false},
      {"?", "x", true},
      {"?", "xy", false},
      {"*.bias", "a.0.bias", true},
      {"*.bias", "a.0.bias.x", false},
      {"*.bias", "a.bias.bias", true},
      {"a.*", "a.", true},
      {"a.*", "b.", false},
      {"a.?.gain", "a.7.gain", true},
      {"a.?.gain", "a.17.gain", false},
      {"*.*.weight", "head.weight", false},
      {"*a*b*c", "xaxbxbxc", true},
      {"*a*b*c", "xaxcxb", false},
      {"**", "ab", true},
      {"a[b]", "ab", false},
      {"", "", true},
      {"", "a", false},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(MatchesPattern(test.pattern, test.name), test.matches)
        << test.pattern << " and " << test.name;
  }
}

TEST(MatchesPatternTest, ManyStarsTakeNoLongTime) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  EXPECT_FALSE(MatchesPattern(pattern + "b", std::string(10000, 'a')));
}

v1::ParameterLayout Parameter(const std::string& name, bool decay) {
  v1::ParameterLayout parameter;
  parameter.set_name(name);
  parameter.set_decay(decay);
  return parameter;
}

v1::OptimizerSpec Spec(const std::string& text) {
  v1::OptimizerSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  ResolveOptimizer(&spec);
  return spec;
}

TEST(WeightDecayOfTest, IsTheOptimizersWhereTheLayoutDecays) {
  for (const std::string kind :
       {"sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw", "lamb"}) {
    const v1::OptimizerSpec spec = Spec(kind + " { weight_decay: 0.25 }");
    EXPECT_EQ(WeightDecayOf(spec, Parameter("a.weight", true)), 0.25f) << kind;
    EXPECT_EQ(WeightDecayOf(spec, Parameter("a.bias", false)), 0) << kind;
    const bool decoupled = kind == "adamw" || kind == "lamb";
    EXPECT_EQ(WeightDecayOf(Spec(kind + " {}"), Parameter("a.weight", true)), decoupled ? 0.01f : 0)
        << kind;
  }
}

TEST(WeightDecayOfTest, TheFirstGroupThatMatchesCounts) {
  const v1::OptimizerSpec spec = Spec(
      "adamw {} decay_group { parameter: 'head.*' weight_decay: 0.5 } "
      "decay_group { parameter: '*.bias' weight_decay: 0.125 } "
      "decay_group { parameter: 'body.1.weight' weight_decay: 0 }");
  EXPECT_EQ(WeightDecayOf(spec, Parameter("head.0.weight", true)), 0.5f);
  EXPECT_EQ(WeightDecayOf(spec, Parameter("head.0.bias", false)), 0.5f);
  EXPECT_EQ(WeightDecayOf(spec, Parameter("body.1.bias", false)), 0.125f);
  EXPECT_EQ(WeightDecayOf(spec, Parameter("body.1.weight", true)), 0);
  EXPECT_EQ(WeightDecayOf(spec, Parameter("body.2.weight", true)), 0.01f);
}

TEST(WeightDecayOfTest, RunningStatisticsHaveNone) {
  v1::ParameterLayout parameter = Parameter("a.running_mean", true);
  parameter.set_average_rate(0.1f);
  EXPECT_EQ(WeightDecayOf(Spec("sgd {} decay_group { parameter: '*' weight_decay: 1 }"), parameter),
            0);
}

}  // namespace
}  // namespace sangam
