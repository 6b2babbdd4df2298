#include "server/core/step_rules.h"

#include <vector>

#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/parameter_service.pb.h"

namespace sangam {
namespace {

TEST(StepRulesTest, OnlyJobsThatDecideAboutWholeStepsVote) {
  v1::JobSpec spec;
  spec.mutable_optimizer()->mutable_adamw();
  spec.set_on_nonfinite(v1::FAIL_JOB);
  EXPECT_FALSE(RulesOf(spec).votes);
  v1::JobSpec clipped = spec;
  clipped.mutable_optimizer()->mutable_clipping()->set_max_norm(2);
  EXPECT_TRUE(RulesOf(clipped).votes);
  EXPECT_EQ(RulesOf(clipped).max_norm, 2);
  EXPECT_FALSE(RulesOf(clipped).skip_not_finite);
  v1::JobSpec skipping = spec;
  skipping.set_on_nonfinite(v1::SKIP_STEP);
  EXPECT_TRUE(RulesOf(skipping).votes);
  EXPECT_TRUE(RulesOf(skipping).skip_not_finite);
  v1::JobSpec lamb = spec;
  lamb.mutable_optimizer()->mutable_lamb();
  EXPECT_TRUE(RulesOf(lamb).votes);
  EXPECT_TRUE(RulesOf(lamb).trust_ratios);
}

TEST(StepRulesTest, ScaleIsThatOfTheNormAndNeverAboveOne) {
  EXPECT_EQ(ClippingScale(25, 1), static_cast<float>(1 / (5 + 1e-6)));
  EXPECT_EQ(ClippingScale(25, 6), 1);
  EXPECT_EQ(ClippingScale(0, 1), 1);
  EXPECT_EQ(ClippingScale(25, 0), 1);  // no clipping
}

TEST(StepRulesTest, TrustIsTheQuotientOfTheNormsOrOne) {
  v1::StepDecision decision;
  for (const double sum : {9.0, 4.0, 0.0, 4.0, 9.0, 0.0}) decision.add_sum(sum);
  EXPECT_EQ(TrustRatios(decision, {0, 1, 2, 0}), (std::vector<float>{1.5, 1, 1, 1.5}));
}

}  // namespace
}  // namespace sangam
