#include "server/core/ready_facts.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::LayoutOf;
using testing::SmallJob;

ReportedFacts Facts(const std::string& worker, uint64_t train, uint64_t test, uint64_t classes) {
  ReportedFacts facts;
  facts.reader = absl::StrCat("worker ", worker);
  facts.report.set_train_samples(train);
  facts.report.set_test_samples(test);
  facts.report.set_classes(classes);
  return facts;
}

absl::StatusOr<DataFacts> Agree(const std::vector<ReportedFacts>& workers, bool evaluate = true) {
  v1::JobSpec spec = SmallJob("job", 1, 1);
  spec.mutable_evaluation()->set_off(!evaluate);
  return AgreeOnFacts(workers, spec, LayoutOf(spec));
}

void ExpectFault(const absl::StatusOr<DataFacts>& facts, const std::string& text) {
  EXPECT_EQ(facts.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(facts.status().message().find(text), absl::string_view::npos) << facts.status();
}

TEST(ReadyFactsTest, WorkersThatSeeTheSameDataAgree) {
  const auto facts = Agree({Facts("a", 20, 5, 3), Facts("b", 20, 5, 3)});
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->train_samples, 20u);
  EXPECT_EQ(facts->test_samples, 5u);
  EXPECT_EQ(facts->classes, 3u);
}

TEST(ReadyFactsTest, ADifferenceNamesBothWorkersAndValues) {
  ExpectFault(Agree({Facts("a", 20, 5, 3), Facts("b", 20, 5, 3), Facts("c", 19, 5, 3)}),
              "training samples: worker a found 20, worker c found 19");
  ExpectFault(Agree({Facts("a", 20, 5, 3), Facts("b", 20, 6, 3)}),
              "test samples: worker a found 5, worker b found 6");
  ExpectFault(Agree({Facts("a", 20, 5, 3), Facts("b", 20, 5, 2)}),
              "classes: worker a found 3, worker b found 2");
}

TEST(ReadyFactsTest, DataMustFitTheJob) {
  ExpectFault(Agree({Facts("a", 0, 5, 3)}), "found 0 training");
  ExpectFault(Agree({Facts("a", uint64_t{1} << 60, 5, 3)}), "test samples, expected 1 to");
  ExpectFault(Agree({Facts("a", 20, 0, 3)}), "no test samples");
  ExpectFault(Agree({Facts("a", 20, 5, 4)}), "found 4 classes");
  EXPECT_TRUE(Agree({Facts("a", 20, 0, 3)}, /*evaluate=*/false).ok());
  EXPECT_TRUE(Agree({Facts("a", 20, 5, 2)}).ok());  // fewer classes than outputs
}

TEST(ReadyFactsTest, LabelsOfASequenceAreClassesOfEachPosition) {
  v1::JobSpec spec = SmallJob("job", 1, 1);
  v1::ModelLayout layout = LayoutOf(spec);
  layout.set_terms_per_sample(16);
  layout.mutable_block(1)->clear_output_shape();
  layout.mutable_block(1)->add_output_shape(16);
  layout.mutable_block(1)->add_output_shape(50);
  EXPECT_TRUE(AgreeOnFacts({Facts("a", 20, 5, 50)}, spec, layout).ok());
  ExpectFault(AgreeOnFacts({Facts("a", 20, 5, 51)}, spec, layout),
              "found 51 classes (1 + the largest label), expected at most 50");
  EXPECT_TRUE(AgreeOnFacts({Facts("a", uint64_t{1} << 44, 5, 50)}, spec, layout).ok());
  ExpectFault(AgreeOnFacts({Facts("a", (uint64_t{1} << 44) + 1, 5, 50)}, spec, layout),
              "training and 5 test samples, expected 1 to");
}

TEST(ReadyFactsTest, TheLengthSaysHowManySamplesThereAre) {
  v1::JobSpec spec = SmallJob("job", 1, 1);
  EXPECT_EQ(LengthOf(spec, {20, 5, 3})->train_samples, 20u);
  EXPECT_EQ(LengthOf(spec, {20, 5, 3})->test_samples, 5u);
  spec.mutable_evaluation()->set_off(true);
  EXPECT_EQ(LengthOf(spec, {20, 5, 3})->test_samples, 0u);
}

TEST(ReadyFactsTest, LengthFollowsFromEpochsOrSteps) {
  v1::JobSpec spec = SmallJob("job", 1, 1);  // batches of 8
  spec.set_epochs(4);
  EXPECT_EQ(LengthOf(spec, {20, 5, 3})->steps_per_epoch, 3u);
  EXPECT_EQ(LengthOf(spec, {20, 5, 3})->steps_total, 12u);
  EXPECT_EQ(LengthOf(spec, {16, 5, 3})->steps_total, 8u);
  EXPECT_EQ(LengthOf(spec, {1, 5, 3})->steps_total, 4u);
  spec.set_steps(7);
  EXPECT_EQ(LengthOf(spec, {20, 5, 3})->steps_total, 7u);
  EXPECT_EQ(LengthOf(spec, {20, 5, 3})->steps_per_epoch, 3u);
}

TEST(ReadyFactsTest, RefusesMoreStepsThanCanBeCounted) {
  v1::JobSpec spec = SmallJob("job", 1, 1);
  spec.set_epochs(uint64_t{1} << 48);
  EXPECT_TRUE(LengthOf(spec, {8, 5, 3}).ok());
  EXPECT_EQ(LengthOf(spec, {9, 5, 3}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sangam
