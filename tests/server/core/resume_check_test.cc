#include "server/core/resume_check.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/model/field_fault.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;

v1::JobSpec Spec() {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "name: 'a' seed: 7 model { input_shape: [4] block { name: 'b' layer { linear { out_features: "
      "2 } } } } loss { softmax_cross_entropy {} } data { idx { train_images: 'x' } } "
      "optimizer { learning_rate: 0.1 sgd {} } batch { size: 8 micro_batches: 2 } epochs: 2",
      &spec));
  return spec;
}

std::vector<std::string> Faults(const v1::JobSpec& spec) {
  std::vector<std::string> lines;
  for (const FieldFault& fault : CheckResume(spec, Spec())) {
    lines.push_back(fault.field + ": " + fault.message);
  }
  return lines;
}

TEST(ResumeCheckTest, WhatDoesNotChangeTheResultMayDiffer) {
  v1::JobSpec spec = Spec();
  spec.set_name("other");
  spec.set_epochs(100);
  spec.set_strategy(v1::HYBRID);
  spec.mutable_resources()->set_workers(4);
  spec.mutable_data()->set_served(true);
  spec.mutable_evaluation()->set_off(true);
  spec.set_precision(v1::FP32);
  EXPECT_THAT(Faults(spec), ElementsAre());
}

TEST(ResumeCheckTest, WorkersMustSumAsThoseOfTheCheckpoint) {
  EXPECT_TRUE(CheckResumeKind("cpu (AVX2)", "cpu (AVX2)").ok());
  // Not known.
  EXPECT_TRUE(CheckResumeKind("cpu (AVX2)", "").ok());
  EXPECT_TRUE(CheckResumeKind("", "cpu (AVX2)").ok());
  // Written before the kernels were told.
  EXPECT_TRUE(CheckResumeKind("cpu (AVX2)", "cpu").ok());
  EXPECT_FALSE(CheckResumeKind("cpu (AVX512, native BF16)", "cpu").ok());
  EXPECT_FALSE(CheckResumeKind("cuda (H)", "cpu").ok());
  EXPECT_EQ(
      CheckResumeKind("cpu (AVX512)", "cpu (AVX2)"),
      absl::FailedPreconditionError("kind of workers: found cpu (AVX512), expected cpu (AVX2) "
                                    "as of the checkpoint; their sums differ"));
  EXPECT_EQ(CheckResumeKind("cpu", "cpu (native BF16)"),
            absl::FailedPreconditionError("kind of workers: found cpu, expected cpu (native BF16) "
                                          "as of the checkpoint; their sums differ"));
}

TEST(ResumeCheckTest, LengthMustBeTheSameWhereTheLearningRateFollowsFromIt) {
  v1::JobSpec checkpoint = Spec();
  const auto faults = [&checkpoint](const v1::JobSpec& spec) {
    std::vector<std::string> lines;
    for (const FieldFault& fault : CheckResume(spec, checkpoint)) {
      lines.push_back(fault.field + ": " + fault.message);
    }
    return lines;
  };
  v1::LearningRateSpec* schedule = checkpoint.mutable_optimizer()->mutable_schedule();
  for (const bool linear : {false, true}) {
    const auto set_decay_steps = [&](uint64_t steps) {
      if (linear) {
        schedule->mutable_linear()->set_decay_steps(steps);
      } else {
        schedule->mutable_cosine()->set_decay_steps(steps);
      }
    };
    set_decay_steps(0);
    v1::JobSpec spec = checkpoint;
    EXPECT_THAT(faults(spec), ElementsAre());
    spec.set_epochs(3);
    EXPECT_THAT(faults(spec),
                ElementsAre("epochs: found 3, expected 2 as in the checkpoint's job"));
    spec.set_steps(2);
    EXPECT_THAT(faults(spec),
                ElementsAre("epochs: found none, expected 2 as in the checkpoint's job",
                            "steps: found 2, expected none as in the checkpoint's job"));
    set_decay_steps(10);
    *spec.mutable_optimizer() = checkpoint.optimizer();
    EXPECT_THAT(faults(spec), ElementsAre());
  }
  schedule->mutable_step()->set_every(5);
  v1::JobSpec spec = checkpoint;
  spec.set_epochs(3);
  EXPECT_THAT(faults(spec), ElementsAre());
}

TEST(ResumeCheckTest, NamesEveryFieldThatDiffers) {
  v1::JobSpec spec = Spec();
  spec.set_seed(8);
  spec.mutable_model()->mutable_block(0)->mutable_layer(0)->mutable_linear()->set_out_features(3);
  spec.mutable_batch()->clear_micro_batches();
  spec.set_precision(v1::BF16);
  EXPECT_THAT(
      Faults(spec),
      ElementsAre("seed: found 8, expected 7 as in the checkpoint's job",
                  "model.block[0].layer[0].linear.out_features: found 3, expected 2 as in the "
                  "checkpoint's job",
                  "batch.micro_batches: found none, expected 2 as in the checkpoint's job",
                  "precision: found BF16, expected FP32 as in the checkpoint's job"));
}

TEST(ResumeCheckTest, NamesWhatIsMissingAndWhatIsNew) {
  v1::JobSpec spec = Spec();
  spec.mutable_model()->add_block()->set_name("c");
  spec.mutable_optimizer()->mutable_momentum()->set_momentum(0.5);
  const std::vector<std::string> faults = Faults(spec);
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0],
            "model.block[1]: found name: \"c\", expected none as in the checkpoint's job");
}

}  // namespace
}  // namespace sangam
