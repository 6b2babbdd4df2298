#include "client/final_line.h"

#include "gtest/gtest.h"

namespace sangam {
namespace {

v1::Job Job(v1::JobState state) {
  v1::Job job;
  job.set_id(4);
  job.mutable_spec()->set_name("mlp");
  job.set_state(state);
  job.mutable_progress()->set_steps_done(705);
  job.mutable_progress()->set_samples_per_second(12345.4);
  return job;
}

TEST(FinalLineTest, Succeeded) {
  v1::Job job = Job(v1::SUCCEEDED);
  job.set_reason("all workers finished");
  job.add_evaluation()->set_accuracy(0.5);
  job.add_evaluation()->set_accuracy(0.89124);
  EXPECT_EQ(FinalLine(job),
            "job mlp SUCCEEDED steps=705 test_accuracy=0.8912 samples_per_second=12345");
}

TEST(FinalLineTest, NumbersAreNotRightOrWrong) {
  v1::Job job = Job(v1::SUCCEEDED);
  job.mutable_spec()->mutable_loss()->mutable_mean_squared_error();
  job.add_evaluation()->set_loss(0.25);
  EXPECT_EQ(FinalLine(job),
            "job mlp SUCCEEDED steps=705 test_loss=0.2500 samples_per_second=12345");
}

TEST(FinalLineTest, WithoutEvaluation) {
  EXPECT_EQ(FinalLine(Job(v1::SUCCEEDED)), "job mlp SUCCEEDED steps=705 samples_per_second=12345");
}

TEST(FinalLineTest, FailedSaysWhyOnOneLine) {
  v1::Job job = Job(v1::FAILED);
  job.set_reason("worker 'w\\1' \"w\":\nno file");
  EXPECT_EQ(FinalLine(job),
            "job mlp FAILED steps=705 reason=\"worker 'w\\\\1' \\\"w\\\":; no file\" "
            "samples_per_second=12345");
}

TEST(FinalLineTest, CancelledBeforeTheFirstStep) {
  v1::Job job;
  job.set_id(4);
  job.set_state(v1::CANCELLED);
  job.set_reason("interrupted");
  EXPECT_EQ(FinalLine(job), "job 4 CANCELLED steps=0 reason=\"interrupted\"");
}

}  // namespace
}  // namespace sangam
