#include "common/model/strategy_check.h"

#include <string>
#include <vector>

#include "common/model/field_fault.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

v1::JobSpec Spec(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  // The second block has its default name, "block1".
  for (const char* name : {"a", "", "c", "d"}) spec.mutable_model()->add_block()->set_name(name);
  return spec;
}

std::string Faults(const std::string& text) {
  std::vector<FieldFault> faults;
  CheckStrategy(Spec(text), &faults);
  return std::string(ToStatus(faults).message());
}

TEST(StrategyCheckTest, AcceptsGoodStrategies) {
  for (const char* good : {
           "",
           "strategy: DATA_PARALLEL",
           "strategy: AUTO",
           "strategy: HYBRID resources { workers: 4 }",
           "strategy: MODEL_PARALLEL resources { workers: 2 } pipeline {}",
           // No more stages than blocks, as the planner does.
           "strategy: MODEL_PARALLEL resources { workers: 9 } pipeline { cut: 'block1' cut: 'c' "
           "cut: 'd' }",
           "strategy: MODEL_PARALLEL resources { workers: 3 } pipeline { schedule: INTERLEAVED "
           "cut: 'block1' cut: 'c' cut: 'd' }",
           "strategy: AUTO pipeline { schedule: ZERO_BUBBLE credits: 1 }",
           "strategy: MODEL_PARALLEL resources { workers: 4 } pipeline { workers: 4 credits: 4096 "
           "}",
           "strategy: HYBRID resources { workers: 4 } pipeline { workers: 2 schedule: GPIPE }",
           "strategy: HYBRID resources { workers: 5 } pipeline { workers: 2 cut: 'd' }",
           // As many names as the planner may need.
           "strategy: HYBRID resources { workers: 9 } pipeline { cut: 'block1' cut: 'd' }",
           "strategy: MODEL_PARALLEL resources { workers: 2 } pipeline { cut: 'c' }",
           "strategy: MODEL_PARALLEL resources { workers: 2 } pipeline { schedule: INTERLEAVED "
           "cut: 'block1' cut: 'c' cut: 'd' }",
           "strategy: AUTO resources { workers: 2 } pipeline { workers: 2 schedule: INTERLEAVED "
           "interleave: 64 }",
       }) {
    EXPECT_EQ(Faults(good), "") << good;
  }
}

TEST(StrategyCheckTest, NamesFieldFoundAndExpected) {
  const struct {
    const char* job;
    const char* fault;
  } cases[] = {
      {"strategy: 9", "strategy: found 9, expected DATA_PARALLEL, MODEL_PARALLEL, HYBRID or AUTO"},
      {"strategy: MODEL_PARALLEL",
       "resources.workers: found 1, expected at least 2 with MODEL_PARALLEL"},
      {"strategy: HYBRID resources { workers: 3 }",
       "resources.workers: found 3, expected at least 4 with HYBRID: two pipelines of two"},
      {"strategy: MODEL_PARALLEL resources { workers: 5 } pipeline { workers: 5 }",
       "model.block: found 4 blocks, expected at least 5: one for each stage of 5 workers with 1 "
       "on each"},
      {"strategy: HYBRID resources { workers: 6 } pipeline { workers: 3 schedule: INTERLEAVED }",
       "model.block: found 4 blocks, expected at least 6: one for each stage of 3 workers with 2 "
       "on each"},
      {"strategy: MODEL_PARALLEL resources { workers: 2 } pipeline { schedule: INTERLEAVED "
       "interleave: 3 }",
       "model.block: found 4 blocks, expected at least 6: one for each stage of 2 workers with 3 "
       "on each"},
      {"pipeline {}", "pipeline: found it with no strategy, expected it only with strategy "},
      {"strategy: DATA_PARALLEL pipeline { workers: 2 }",
       "pipeline: found it with DATA_PARALLEL, expected it only with strategy MODEL_PARALLEL, "
       "HYBRID or AUTO"},
      {"strategy: AUTO resources { workers: 3 } pipeline { workers: 1 }",
       "pipeline.workers: found 1, expected 2 to 3 (resources.workers)"},
      {"strategy: MODEL_PARALLEL resources { workers: 3 } pipeline { workers: 4 }",
       "pipeline.workers: found 4, expected 2 to 3 (resources.workers)"},
      {"strategy: MODEL_PARALLEL pipeline { workers: 2 }",
       "pipeline.workers: found 2, expected resources.workers of at least 2 for it (it is 1)"},
      {"strategy: HYBRID resources { workers: 5 } pipeline { workers: 3 }",
       "pipeline.workers: found 3, expected 2 to 2 (resources.workers / 2 with HYBRID"},
      {"strategy: HYBRID resources { workers: 3 } pipeline { workers: 2 }",
       "pipeline.workers: found 2, expected resources.workers of at least 4 for it (it is 3)"},
      {"strategy: HYBRID resources { workers: 4 } pipeline { workers: 4294967295 }",
       "pipeline.workers: found 4294967295, expected 2 to 2"},
      {"strategy: AUTO pipeline { schedule: 7 }",
       "pipeline.schedule: found 7, expected GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE or "
       "EAGER_ONE_F_ONE_B"},
      {"strategy: AUTO pipeline { interleave: 2 }",
       "pipeline.interleave: found 2, expected none unless pipeline.schedule is INTERLEAVED"},
      {"strategy: AUTO pipeline { schedule: INTERLEAVED interleave: 1 }",
       "pipeline.interleave: found 1, expected 2 to 64"},
      {"strategy: AUTO pipeline { schedule: INTERLEAVED interleave: 65 }",
       "pipeline.interleave: found 65, expected 2 to 64"},
      {"strategy: AUTO pipeline { credits: 0 }", "pipeline.credits: found 0, expected 1 to 4096"},
      {"strategy: AUTO pipeline { credits: 4097 }", "pipeline.credits: found 4097"},
      {"strategy: AUTO pipeline { cut: 'x' }",
       "pipeline.cut[0]: found \"x\", expected the name of a block"},
      {"strategy: AUTO pipeline { cut: 'a' }",
       "pipeline.cut[0]: found \"a\", expected a later block (the first one begins the first stage "
       "anyway)"},
      {"strategy: AUTO pipeline { cut: 'c' cut: 'block1' }",
       "pipeline.cut[1]: found \"block1\", expected a block behind \"c\", in the model's order"},
      {"strategy: AUTO pipeline { cut: 'c' cut: 'c' }", "pipeline.cut[1]: found \"c\""},
      {"strategy: MODEL_PARALLEL resources { workers: 3 } pipeline { cut: 'c' }",
       "pipeline.cut: found 1 name, expected 2 for 3 stages (3 workers of a pipeline, 1 on each)"},
      {"strategy: AUTO resources { workers: 3 } pipeline { workers: 2 cut: 'c' cut: 'd' }",
       "pipeline.cut: found 2 names, expected 1 for 2 stages"},
      {"strategy: HYBRID resources { workers: 4 } "
       "pipeline { workers: 2 schedule: INTERLEAVED cut: 'c' }",
       "pipeline.cut: found 1 name, expected 3 for 4 stages (2 workers of a pipeline, 2 on each)"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(Faults(test.job), HasSubstr(test.fault)) << test.job;
  }
}

TEST(ResolveStrategyTest, FillsWhatAbsenceMeans) {
  v1::JobSpec spec = Spec("");
  ResolveStrategy(&spec);
  EXPECT_EQ(spec.strategy(), v1::DATA_PARALLEL);
  EXPECT_FALSE(spec.has_pipeline());

  spec = Spec("strategy: AUTO");
  ResolveStrategy(&spec);
  EXPECT_EQ(spec.strategy(), v1::AUTO);
  EXPECT_EQ(spec.pipeline().schedule(), v1::ONE_F_ONE_B);
  EXPECT_EQ(spec.pipeline().interleave(), 0u);
  EXPECT_EQ(spec.pipeline().workers(), 0u);

  spec = Spec("strategy: HYBRID pipeline { schedule: INTERLEAVED }");
  ResolveStrategy(&spec);
  EXPECT_EQ(spec.pipeline().interleave(), 2u);
  spec.mutable_pipeline()->set_interleave(5);
  ResolveStrategy(&spec);
  EXPECT_EQ(spec.pipeline().interleave(), 5u);
}

}  // namespace
}  // namespace sangam
