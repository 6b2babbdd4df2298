#include "client/field_override.h"

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FieldOverrideTest : public ::testing::Test {
 protected:
  FieldOverrideTest() {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(
          name: "mlp"
          model {
            input_shape: [ 28, 28 ]
            block {
              layer { flatten {} }
              layer { dropout { rate: 0.1 } }
            }
            block { layer { linear { out_features: 10 } } }
          }
          optimizer {
            learning_rate: 0.05
            momentum { momentum: 0.9 }
          }
          batch { size: 256 }
          epochs: 3
        )pb",
        &spec_));
  }

  void Set(const std::string& assignment) {
    const absl::Status status = ApplyOverride(assignment, &spec_);
    EXPECT_TRUE(status.ok()) << status;
  }
  std::string Error(const std::string& assignment) {
    const absl::Status status = ApplyOverride(assignment, &spec_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << assignment;
    return std::string(status.message());
  }

  v1::JobSpec spec_;
};

TEST_F(FieldOverrideTest, SetsScalars) {
  Set("optimizer.learning_rate=0.1");
  Set("seed=18446744073709551615");
  Set("batch.micro_batches=8");
  Set("data.no_shuffle=true");
  Set("name=a=b c");
  EXPECT_FLOAT_EQ(spec_.optimizer().learning_rate(), 0.1f);
  EXPECT_EQ(spec_.seed(), 18446744073709551615u);
  EXPECT_EQ(spec_.batch().micro_batches(), 8u);
  EXPECT_TRUE(spec_.data().no_shuffle());
  EXPECT_EQ(spec_.name(), "a=b c");
  Set("name=");
  EXPECT_EQ(spec_.name(), "");
}

TEST_F(FieldOverrideTest, TakesWhatTheCoordinatorWillRefuse) {
  Set("optimizer.learning_rate=nan");
  EXPECT_TRUE(std::isnan(spec_.optimizer().learning_rate()));
  Set("optimizer.learning_rate=-inf");
  EXPECT_TRUE(std::isinf(spec_.optimizer().learning_rate()));
}

TEST_F(FieldOverrideTest, FollowsLists) {
  Set("model.block[0].layer[1].dropout.rate=0.2");
  Set("model.input_shape[1]=14");
  EXPECT_FLOAT_EQ(spec_.model().block(0).layer(1).dropout().rate(), 0.2f);
  EXPECT_EQ(spec_.model().input_shape(0), 28u);
  EXPECT_EQ(spec_.model().input_shape(1), 14u);
}

TEST_F(FieldOverrideTest, SetsEnumsByName) {
  Set("strategy=DATA_PARALLEL");
  EXPECT_EQ(spec_.strategy(), v1::DATA_PARALLEL);
  EXPECT_THAT(Error("strategy=data"), AllOf(HasSubstr("strategy: found 'data', expected one of"),
                                            HasSubstr("DATA_PARALLEL")));
}

TEST_F(FieldOverrideTest, SwitchesOneofs) {
  Set("optimizer.adamw.beta1=0.8");
  EXPECT_FALSE(spec_.optimizer().has_momentum());
  EXPECT_FLOAT_EQ(spec_.optimizer().adamw().beta1(), 0.8f);
  Set("optimizer.sgd={}");
  EXPECT_TRUE(spec_.optimizer().has_sgd());
  EXPECT_FALSE(spec_.optimizer().has_adamw());
  EXPECT_FLOAT_EQ(spec_.optimizer().learning_rate(), 0.05f);
  Set("steps=10");
  EXPECT_FALSE(spec_.has_epochs());
  EXPECT_EQ(spec_.steps(), 10u);
}

TEST_F(FieldOverrideTest, SetsWholeMessagesAndLists) {
  Set("optimizer.adamw={beta1: 0.7 weight_decay: 0}");
  EXPECT_FLOAT_EQ(spec_.optimizer().adamw().beta1(), 0.7f);
  EXPECT_TRUE(spec_.optimizer().adamw().has_weight_decay());
  Set("batch={size: 1}");
  EXPECT_EQ(spec_.batch().size(), 1u);
  Set("model.input_shape=[4, 5, 6]");
  EXPECT_EQ(spec_.model().input_shape_size(), 3);
  Set("model.block=[{name: 'one'}]");
  ASSERT_EQ(spec_.model().block_size(), 1);
  EXPECT_EQ(spec_.model().block(0).name(), "one");
  Set("model.input_shape=[]");
  EXPECT_EQ(spec_.model().input_shape_size(), 0);
}

TEST_F(FieldOverrideTest, SetsEveryKindOfScalar) {
  v1::Job job;
  EXPECT_TRUE(ApplyOverride("progress.loss=0.1", &job).ok());
  EXPECT_DOUBLE_EQ(job.progress().loss(), 0.1);
  job.add_worker("a");
  EXPECT_TRUE(ApplyOverride("worker[0]=b", &job).ok());
  EXPECT_EQ(job.worker(0), "b");
  v1::BlockLayout block;
  EXPECT_TRUE(ApplyOverride("segment=-1", &block).ok());
  EXPECT_EQ(block.segment(), -1);
  v1::StateChange change;
  EXPECT_TRUE(ApplyOverride("time.seconds=-5", &change).ok());
  EXPECT_EQ(change.time().seconds(), -5);
}

TEST_F(FieldOverrideTest, UnknownFieldsNameElementAndChoices) {
  EXPECT_EQ(
      Error("optimizer.learning_rat=0.1"),
      "path 'optimizer.learning_rat': OptimizerSpec has no field 'learning_rat'; did you mean "
      "'learning_rate'? (its fields: learning_rate, sgd, momentum, adamw, adagrad, rmsprop, adam, "
      "lamb, schedule, clipping, decay_group)");
  EXPECT_THAT(Error("optimiser.learning_rate=0.1"),
              HasSubstr("path 'optimiser': JobSpec has no field 'optimiser'; did you mean "
                        "'optimizer'?"));
  EXPECT_THAT(Error("loss.softmax_cross_entropy.x=1"), HasSubstr("(it has none)"));
}

TEST_F(FieldOverrideTest, IndicesAreChecked) {
  EXPECT_THAT(Error("model.block[2].name=x"),
              HasSubstr("path 'model.block[2]': index 2 is beyond the list, which has 2 elements"));
  EXPECT_THAT(Error("model.input_shape[5]=1"), HasSubstr("beyond the list"));
  EXPECT_THAT(Error("model.block.name=x"), HasSubstr("is a list, expected an index: block[0]"));
  EXPECT_THAT(Error("epochs[0]=1"), HasSubstr("'epochs' is not a list, expected no index"));
  EXPECT_THAT(Error("model.block[0]={}"), HasSubstr("cannot be set as a whole"));
  for (const std::string index :
       {"[", "[]", "[-1]", "[x]", "[1", "[0]]", "[ 0]", "[+1]", "[99999999999]"}) {
    EXPECT_THAT(Error("model.block" + index + ".name=x"),
                HasSubstr("expected an index such as [0]"))
        << index;
  }
}

TEST_F(FieldOverrideTest, PathsAreChecked) {
  EXPECT_EQ(Error("epochs"), "found 'epochs', expected path=value");
  EXPECT_THAT(Error("=1"), HasSubstr("a name is missing"));
  EXPECT_THAT(Error(".epochs=1"), HasSubstr("a name is missing"));
  EXPECT_THAT(Error("batch.=1"), HasSubstr("a name is missing"));
  EXPECT_THAT(Error("batch..size=1"), HasSubstr("a name is missing"));
  EXPECT_THAT(Error("[0]=1"), HasSubstr("a name is missing"));
  EXPECT_THAT(Error("epochs.x=1"), HasSubstr("'epochs' is a uint64 and has no fields"));
  EXPECT_THAT(Error("name\n=1"), HasSubstr("name\\n"));
}

TEST_F(FieldOverrideTest, ValuesAreChecked) {
  for (const std::string value : {"-1", "1.5", "", "x", "18446744073709551616", "1 2"}) {
    EXPECT_THAT(Error("epochs=" + value), HasSubstr("epochs: found '")) << value;
  }
  EXPECT_THAT(Error("batch.shares=4294967296"), HasSubstr("from 0 to 4294967295"));
  EXPECT_THAT(Error("optimizer.learning_rate=fast"), HasSubstr("found 'fast', expected a number"));
  EXPECT_THAT(Error("data.no_shuffle=1"), HasSubstr("expected true or false"));
}

TEST_F(FieldOverrideTest, TextOfMessagesIsChecked) {
  EXPECT_THAT(Error("optimizer.sgd=yes"), HasSubstr("expected a whole message such as {}"));
  EXPECT_THAT(Error("batch=256"), HasSubstr("one of its fields: size, micro_batches, shares"));
  EXPECT_THAT(Error("batch={sise: 1}"), HasSubstr("no field named \"sise\""));
  EXPECT_THAT(Error("batch={size: -1}"), HasSubstr("found '{size: -1}'"));
  EXPECT_THAT(Error("model.input_shape=28"), HasSubstr("expected a whole list"));
  EXPECT_THAT(Error("model.input_shape=[1] block: [{}]"), HasSubstr("the value of one field"));
  EXPECT_THAT(Error("batch={size: 1} epochs: {}"), HasSubstr("found '"));
  EXPECT_EQ(spec_.epochs(), 3u);
}

}  // namespace
}  // namespace sangam
