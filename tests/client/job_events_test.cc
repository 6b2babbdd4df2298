#include "client/job_events.h"

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(JobEventsTest, FollowsStatesWithoutRepeatingThem) {
  v1::Job job;
  job.add_history()->set_state(v1::QUEUED);
  v1::JobEvent event;
  event.mutable_state()->set_state(v1::QUEUED);
  ApplyEvent(event, &job);
  EXPECT_EQ(job.history_size(), 1);
  event.mutable_state()->set_state(v1::FAILED);
  event.mutable_state()->set_reason("why");
  ApplyEvent(event, &job);
  EXPECT_EQ(job.history_size(), 2);
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_EQ(job.reason(), "why");
}

TEST(JobEventsTest, FollowsStepsAndEvaluations) {
  v1::Job job;
  v1::JobEvent event;
  event.set_steps_total(20);
  event.set_steps_per_epoch(10);
  event.mutable_step()->set_step(4);
  event.mutable_step()->set_loss(0.5);
  event.mutable_step()->set_samples(256);
  event.mutable_step()->set_samples_per_second(100);
  ApplyEvent(event, &job);
  event.set_steps_total(0);
  event.set_steps_per_epoch(0);
  event.mutable_step()->set_step(5);
  event.mutable_step()->set_samples(4);
  ApplyEvent(event, &job);
  EXPECT_EQ(job.progress().steps_done(), 6u);
  EXPECT_EQ(job.progress().steps_total(), 20u);
  EXPECT_EQ(job.progress().steps_per_epoch(), 10u);
  EXPECT_EQ(job.progress().samples(), 260u);
  EXPECT_EQ(job.progress().loss(), 0.5);
  EXPECT_EQ(job.progress().samples_per_second(), 100);
  v1::JobEvent evaluation;
  evaluation.mutable_evaluation()->set_accuracy(0.75);
  ApplyEvent(evaluation, &job);
  ASSERT_EQ(job.evaluation_size(), 1);
  EXPECT_EQ(job.evaluation(0).accuracy(), 0.75);
}

TEST(JobEventsTest, AJobThatStartsAgainForgetsWhatIsDoneAgain) {
  v1::Job job;
  const auto evaluated = [&job](uint64_t step) {
    v1::JobEvent event;
    event.mutable_evaluation()->set_step(step);
    ApplyEvent(event, &job);
  };
  for (const uint64_t step : {10, 20, 30}) evaluated(step);
  v1::JobEvent event;
  event.mutable_step()->set_step(15);
  ApplyEvent(event, &job);
  EXPECT_EQ(job.progress().steps_done(), 16u);
  ASSERT_EQ(job.evaluation_size(), 1);
  // The one at the step where it starts comes again.
  evaluated(10);
  evaluated(20);
  ASSERT_EQ(job.evaluation_size(), 2);
  EXPECT_EQ(job.evaluation(1).step(), 20u);
}

TEST(JobEventsTest, MessagesChangeNothing) {
  v1::Job job;
  v1::JobEvent event;
  event.set_message("waiting");
  ApplyEvent(event, &job);
  ApplyEvent(v1::JobEvent(), &job);
  EXPECT_EQ(job.history_size(), 0);
  EXPECT_EQ(job.progress().steps_done(), 0u);
}

}  // namespace
}  // namespace sangam
