#include "common/model/optimizer_state.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StrEq;

TEST(OptimizerStateTest, NamesWhatEachOptimizerKeeps) {
  v1::OptimizerSpec spec;
  EXPECT_THAT(OptimizerStateNames(spec), IsEmpty());
  spec.mutable_sgd();
  EXPECT_THAT(OptimizerStateNames(spec), IsEmpty());
  spec.mutable_momentum();
  EXPECT_THAT(OptimizerStateNames(spec), ElementsAre(StrEq("momentum_buffer")));
  spec.mutable_adagrad();
  EXPECT_THAT(OptimizerStateNames(spec), ElementsAre(StrEq("sum")));
  for (const bool lamb : {false, true}) {
    if (lamb) {
      spec.mutable_lamb();
    } else {
      spec.mutable_adamw();
    }
    EXPECT_THAT(OptimizerStateNames(spec), ElementsAre(StrEq("exp_avg"), StrEq("exp_avg_sq")));
  }
  spec.mutable_rmsprop()->set_centered(true);
  spec.mutable_rmsprop()->set_momentum(0.5f);
  EXPECT_THAT(OptimizerStateNames(spec),
              ElementsAre(StrEq("square_avg"), StrEq("grad_avg"), StrEq("momentum_buffer")));
}

}  // namespace
}  // namespace sangam
