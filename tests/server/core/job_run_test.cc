#include "server/core/job_run.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::Daemon;
using testing::Evaluated;
using testing::Failed;
using testing::Finished;
using testing::PipelineJob;
using testing::PlanOf;
using testing::Ready;
using testing::SmallJob;
using testing::Step;

constexpr PlanMember kWorker1{v1::WORKER, 0};
constexpr PlanMember kWorker2{v1::WORKER, 1};
constexpr PlanMember kServer{v1::SERVER, 0};
constexpr int kUnavailable = static_cast<int>(absl::StatusCode::kUnavailable);
constexpr int kNotFound = static_cast<int>(absl::StatusCode::kNotFound);
constexpr int kInternal = static_cast<int>(absl::StatusCode::kInternal);

absl::Duration At(double seconds) { return absl::Seconds(50) + absl::Seconds(seconds); }

std::shared_ptr<const v1::Assignment> Prepare(const v1::JobSpec& spec) {
  auto assignment = std::make_shared<v1::Assignment>();
  assignment->set_phase(v1::Assignment::PREPARE);
  *assignment->mutable_spec() = spec;
  *assignment->mutable_plan() = PlanOf(assignment->spec());
  return assignment;
}

class JobRunTest : public ::testing::Test {
 protected:
  JobRunTest() : JobRunTest(SmallJob("job", 2, 1)) {}
  explicit JobRunTest(const v1::JobSpec& spec) : run_(Prepare(spec), {}, At(0)) {}

  void StartRunning() {
    ASSERT_FALSE(run_.OnReport(kWorker1, Ready(), At(1)).run.has_value());
    ASSERT_FALSE(run_.OnReport(kServer, Ready(), At(1)).run.has_value());
    ASSERT_TRUE(run_.OnReport(kWorker2, Ready(), At(1)).run.has_value());
    ASSERT_TRUE(run_.running());
  }

  const v1::WorkerPlan& worker(PlanMember member) const {
    return run_.plan().worker(static_cast<int>(member.index));
  }

  JobRun run_;
};

std::string FailureOf(const JobRun::Effects& effects) {
  EXPECT_TRUE(effects.outcome.has_value());
  if (!effects.outcome.has_value()) return "";
  EXPECT_EQ(effects.outcome->state, v1::FAILED);
  return effects.outcome->reason;
}

// Why the job must start again elsewhere.
std::string LossOf(const JobRun::Effects& effects, bool pages_lost = false) {
  EXPECT_TRUE(effects.outcome.has_value());
  if (!effects.outcome.has_value()) return "";
  EXPECT_EQ(effects.outcome->state, v1::PREEMPTED);
  EXPECT_EQ(effects.outcome->pages_lost, pages_lost);
  return effects.outcome->reason;
}

TEST_F(JobRunTest, FindsItsDaemonsByTheirIncarnation) {
  EXPECT_EQ(run_.Find(Daemon(v1::WORKER, "w-2"))->index, 1u);
  EXPECT_EQ(run_.Find(Daemon(v1::SERVER, "s-1"))->role, v1::SERVER);
  EXPECT_FALSE(run_.Find(Daemon(v1::WORKER, "w-2", 2)).has_value());
  EXPECT_FALSE(run_.Find(Daemon(v1::WORKER, "s-1")).has_value());
  EXPECT_FALSE(run_.Find(Daemon(v1::WORKER, "w-3")).has_value());
}

TEST_F(JobRunTest, RunsWhenAllAreReady) {
  StartRunning();
  const auto again = run_.OnReport(kWorker1, Ready(), At(2));
  EXPECT_FALSE(again.run.has_value());
  EXPECT_FALSE(again.outcome.has_value());
}

TEST_F(JobRunTest, FailsWhenTheFactsDoNotAgree) {
  run_.OnReport(kServer, Ready(), At(1));
  run_.OnReport(kWorker1, Ready(), At(1));
  v1::JobReport other = Ready();
  other.mutable_ready()->set_classes(2);
  EXPECT_EQ(FailureOf(run_.OnReport(kWorker2, other, At(1))),
            "the workers do not see the same data: classes: worker w-1 found 3, worker w-2 found "
            "2");
}

TEST_F(JobRunTest, FailsWhenNotAllAreReadyInTime) {
  run_.OnReport(kWorker1, Ready(), At(1));
  EXPECT_FALSE(run_.OnTime(At(59.9)).outcome.has_value());
  EXPECT_EQ(FailureOf(run_.OnTime(At(60))), "not ready within 60 s: worker w-2, server s-1");
}

TEST_F(JobRunTest, ARunningJobHasNoStartingDeadline) {
  StartRunning();
  EXPECT_FALSE(run_.OnTime(At(10'000)).outcome.has_value());
}

v1::JobReport Skipped(uint64_t step) {
  v1::JobReport report;
  report.mutable_skipped_step()->set_step(step);
  report.mutable_skipped_step()->set_why("worker w-1, block hidden, shares [3,4)");
  return report;
}

v1::JobSpec LongJob() {
  v1::JobSpec spec = SmallJob("job", 2, 1);
  spec.set_epochs(20);
  return spec;
}

class LongJobRunTest : public JobRunTest {
 protected:
  LongJobRunTest() : JobRunTest(LongJob()) {}
};

TEST_F(LongJobRunTest, ASkippedStepBecomesAMessageOnce) {
  StartRunning();
  const JobRun::Effects effects = run_.OnReport(kServer, Skipped(4), At(2));
  EXPECT_EQ(effects.skipped_steps, 1u);
  ASSERT_EQ(effects.messages.size(), 1u);
  EXPECT_EQ(effects.messages[0],
            "step 4 was skipped: the gradient is not finite: worker w-1, block hidden, shares "
            "[3,4)");
  EXPECT_FALSE(effects.outcome.has_value());
  const JobRun::Effects again = run_.OnReport(kServer, Skipped(4), At(2));
  EXPECT_EQ(again.skipped_steps, 0u);
  EXPECT_TRUE(again.messages.empty());
}

TEST_F(LongJobRunTest, TwentySkippedStepsInARowFailTheJob) {
  StartRunning();
  for (uint64_t step = 0; step < 19; ++step) {
    ASSERT_FALSE(run_.OnReport(kServer, Skipped(step), At(2)).outcome.has_value());
  }
  // Step 19 was not skipped.
  for (uint64_t step = 20; step < 39; ++step) {
    ASSERT_FALSE(run_.OnReport(kServer, Skipped(step), At(2)).outcome.has_value());
  }
  EXPECT_EQ(FailureOf(run_.OnReport(kServer, Skipped(39), At(2))),
            "the last 20 steps were skipped, up to step 39: the gradient is not finite: worker "
            "w-1, block hidden, shares [3,4)");
}

TEST_F(LongJobRunTest, SkippedStepsComeFromTheFirstServerAlone) {
  StartRunning();
  EXPECT_NE(FailureOf(run_.OnReport(kWorker1, Skipped(0), At(2))).find("counts votes alone"),
            std::string::npos);
  EXPECT_NE(FailureOf(run_.OnReport(kServer, Skipped(1'000'000), At(2))).find("skipped step"),
            std::string::npos);
}

TEST_F(LongJobRunTest, ALossThatRunsAwayBecomesAMessage) {
  StartRunning();
  std::string messages;
  for (uint64_t step = 0; step < 20; ++step) {
    for (const PlanMember member : {kWorker1, kWorker2}) {
      v1::JobReport report = Step(worker(member), step);
      for (double& loss : *report.mutable_step()->mutable_loss_sum()) loss = step < 15 ? 1 : 1000;
      for (const std::string& message : run_.OnReport(member, report, At(2)).messages) {
        messages += message + "\n";
      }
    }
  }
  EXPECT_EQ(messages.find("step 15: the loss is "), 0u) << messages;
  EXPECT_EQ(messages.find('\n'), messages.size() - 1) << messages;
}

TEST_F(JobRunTest, SucceedsWhenAllHaveFinishedAndNothingIsMissing) {
  StartRunning();
  for (uint64_t step = 0; step < testing::kStepsTotal; ++step) {
    EXPECT_TRUE(run_.OnReport(kWorker1, Step(worker(kWorker1), step), At(2)).steps.empty());
    EXPECT_EQ(run_.OnReport(kWorker2, Step(worker(kWorker2), step), At(2)).steps.size(), 1u);
  }
  EXPECT_TRUE(run_.OnReport(kWorker2, Evaluated(worker(kWorker2), 6), At(3)).evaluations.empty());
  EXPECT_FALSE(run_.OnReport(kWorker2, Finished(), At(3)).outcome.has_value());
  EXPECT_EQ(run_.OnReport(kWorker1, Evaluated(worker(kWorker1), 6), At(3)).evaluations.size(), 1u);
  const auto end = run_.OnReport(kWorker1, Finished(), At(4));
  ASSERT_TRUE(end.outcome.has_value());
  EXPECT_EQ(end.outcome->state, v1::SUCCEEDED);
}

TEST_F(JobRunTest, FailsRatherThanWaitsWhenWorkersFinishWithoutAllReports) {
  StartRunning();
  run_.OnReport(kWorker1, Finished(), At(2));
  EXPECT_EQ(FailureOf(run_.OnReport(kWorker2, Finished(), At(2))),
            "every worker has finished, but the losses of step 0 of 6 have not come");
}

TEST_F(JobRunTest, AReportThatMakesNoSenseFailsTheJobAndNamesTheSender) {
  StartRunning();
  EXPECT_EQ(FailureOf(run_.OnReport(kWorker2, Step(worker(kWorker1), 0), At(2))),
            "worker w-2 sent a report that does not fit: losses of step 0: found 2 losses and 2 "
            "counts from share 0 on, expected one of each for shares within [2,4)");
  EXPECT_NE(FailureOf(run_.OnReport(kWorker1, {}, At(2))).find("of no kind"), std::string::npos);
  EXPECT_NE(FailureOf(run_.OnReport(kServer, Finished(), At(2))).find("server s-1 sent"),
            std::string::npos);
}

TEST_F(JobRunTest, AFailureOfADaemonsOwnFailsTheJobAtOnce) {
  EXPECT_EQ(FailureOf(run_.OnReport(kWorker2, Failed(kNotFound, "data.idx: no such file"), At(1))),
            "worker w-2 failed: NOT_FOUND: data.idx: no such file");
  StartRunning();
  EXPECT_EQ(FailureOf(run_.OnReport(kServer, Failed(kInternal, "boom"), At(2))),
            "server s-1 failed: INTERNAL: boom");
}

TEST_F(JobRunTest, ABrokenLinkIsHeldBackUntilTheLostPeerIsKnown) {
  StartRunning();
  EXPECT_FALSE(run_.OnReport(kWorker1, Failed(kUnavailable, "link to s-1 lost"), At(10))
                   .outcome.has_value());
  EXPECT_FALSE(run_.OnReport(kWorker2, Failed(kUnavailable, "link to s-1 lost"), At(12))
                   .outcome.has_value());
  EXPECT_FALSE(run_.OnTime(At(14.9)).outcome.has_value());
  EXPECT_EQ(LossOf(run_.OnGone(kServer, "lost", "no sign of life for 5.0 s (lease 5 s)"), true),
            "server s-1 lost: no sign of life for 5.0 s (lease 5 s)");
}

TEST_F(JobRunTest, ALostDeviceIsTheReasonThoughALinkBrokeFirst) {
  StartRunning();
  EXPECT_FALSE(run_.OnReport(kWorker1, Failed(kUnavailable, "link to w-2 lost"), At(10))
                   .outcome.has_value());
  v1::JobReport lost = Failed(kInternal, "cuda: Gemm: an illegal memory access");
  lost.mutable_failed()->set_daemon_at_fault(true);
  EXPECT_EQ(LossOf(run_.OnReport(kWorker2, lost, At(11))),
            "worker w-2 has lost its device: INTERNAL: cuda: Gemm: an illegal memory access");
}

TEST_F(JobRunTest, ABrokenLinkIsTheReasonWhenNobodyIsLostWithinALease) {
  StartRunning();
  run_.OnReport(kWorker1, Failed(kUnavailable, "link to s-1 lost"), At(10));
  EXPECT_EQ(FailureOf(run_.OnTime(At(15))), "worker w-1 failed: UNAVAILABLE: link to s-1 lost");
}

TEST_F(JobRunTest, ARestartedPeerThatKnowsNothingIsHeldBackTooWhileTheJobRuns) {
  StartRunning();
  EXPECT_FALSE(run_.OnReport(kWorker1, Failed(kNotFound, "s-1 does not hold job 1"), At(10))
                   .outcome.has_value());
}

TEST_F(JobRunTest, WhatWorkersMeasuredMustFitTheJob) {
  v1::JobReport trace;
  trace.mutable_trace()->set_step(5);
  // Before it trains there is no step.
  EXPECT_NE(FailureOf(run_.OnReport(kWorker1, trace, At(1))).find("expected a step below 0"),
            std::string::npos);
  StartRunning();
  EXPECT_FALSE(run_.OnReport(kWorker1, trace, At(2)).outcome.has_value());
  trace.mutable_trace()->set_step(6);
  EXPECT_EQ(FailureOf(run_.OnReport(kWorker1, trace, At(2))),
            "worker w-1 sent a report that does not fit: trace of step 6: expected a step below 6");
  v1::JobReport times;
  times.mutable_block_times()->add_block()->set_block(1);
  EXPECT_FALSE(run_.OnReport(kWorker1, times, At(2)).outcome.has_value());
  times.mutable_block_times()->mutable_block(0)->set_block(2);
  EXPECT_EQ(FailureOf(run_.OnReport(kWorker1, times, At(2))),
            "worker w-1 sent a report that does not fit: block times: found block 2, expected one "
            "below 2");
}

class ServedJobTest : public JobRunTest {
 protected:
  static v1::JobSpec Served() {
    v1::JobSpec spec = SmallJob("job", 2, 1);
    spec.mutable_data()->set_served(true);
    return spec;
  }
  ServedJobTest() : JobRunTest(Served()) {}
};

TEST_F(ServedJobTest, WaitsForTheCoordinatorsDataToo) {
  const v1::JobReport ready = Ready();
  for (const PlanMember member : {kWorker1, kWorker2, kServer}) {
    EXPECT_FALSE(run_.OnReport(member, ready, At(1)).run.has_value());
  }
  EXPECT_EQ(FailureOf(run_.OnTime(At(60))), "not ready within 60 s: coordinator (data)");
  EXPECT_TRUE(run_.OnServedData(ready.ready(), At(2)).run.has_value());
  EXPECT_FALSE(run_.OnServedData(ready.ready(), At(2)).run.has_value());
}

TEST_F(ServedJobTest, DataThatCannotBeServedFailsTheJobAtOnceAtAnyTime) {
  EXPECT_EQ(FailureOf(run_.OnServedData(absl::UnavailableError("disk gone"), At(1))),
            "coordinator (data) failed: UNAVAILABLE: disk gone");
  run_.OnServedData(Ready().ready(), At(1));
  StartRunning();
  EXPECT_EQ(FailureOf(run_.OnServedData(absl::DataLossError("train-images: cut off"), At(2))),
            "coordinator (data) failed: DATA_LOSS: train-images: cut off");
}

class PipelineRunTest : public JobRunTest {
 protected:
  PipelineRunTest() : JobRunTest(PipelineJob("job")) {}
};

TEST_F(PipelineRunTest, ABrokenLinkBetweenWorkersIsHeldBackUntilTheLostOneIsKnown) {
  const PlanMember last{v1::WORKER, 2};
  for (const PlanMember member : {kWorker1, kWorker2, last, kServer}) {
    run_.OnReport(member, Ready(), At(1));
  }
  ASSERT_TRUE(run_.running());
  EXPECT_FALSE(run_.OnReport(kWorker1, Failed(kUnavailable, "link to worker w-2 lost"), At(10))
                   .outcome.has_value());
  EXPECT_FALSE(run_.OnReport(last, Failed(kNotFound, "worker w-2 does not hold job 1"), At(11))
                   .outcome.has_value());
  EXPECT_FALSE(run_.OnTime(At(14.9)).outcome.has_value());
  EXPECT_EQ(LossOf(run_.OnGone(kWorker2, "lost", "no sign of life for 5.0 s (lease 5 s)")),
            "worker w-2 lost: no sign of life for 5.0 s (lease 5 s)");
}

TEST_F(JobRunTest, ADaemonThatLeavesIsNamed) {
  EXPECT_EQ(LossOf(run_.OnGone(kWorker1, "left", "SIGTERM")), "worker w-1 left: SIGTERM");
  EXPECT_EQ(LossOf(run_.OnGone(kWorker1, "left", "")), "worker w-1 left");
}

// Reports that waited while the coordinator was away come one worker after another.
TEST(JobRunAheadTest, WhatIsTooFarAheadOfAnotherWorkerIsTakenLater) {
  v1::JobSpec spec = SmallJob("job", 2, 1);
  spec.set_epochs(20);
  JobRun run(Prepare(spec), {}, At(0));
  for (const PlanMember member : {kWorker1, kWorker2, kServer})
    run.OnReport(member, Ready(), At(1));
  ASSERT_TRUE(run.running());
  const auto evaluated = [&run](PlanMember member, uint64_t step) {
    return run.OnReport(member, Evaluated(run.plan().worker(static_cast<int>(member.index)), step),
                        At(2));
  };
  for (uint64_t step = 1; step <= 16; ++step) ASSERT_TRUE(evaluated(kWorker1, step).later.ok());
  const JobRun::Effects refused = evaluated(kWorker1, 17);
  EXPECT_EQ(refused.later.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(refused.outcome.has_value());
  EXPECT_EQ(evaluated(kWorker2, 1).evaluations.size(), 1u);
  EXPECT_TRUE(evaluated(kWorker1, 17).later.ok());
}

TEST(JobRunRestoreTest, ARunThatIsTakenUpGoesOnWhereItWas) {
  auto assignment = std::make_shared<v1::Assignment>(*Prepare(SmallJob("job", 2, 1)));
  assignment->set_phase(v1::Assignment::RUN);
  assignment->set_steps_total(testing::kStepsTotal);
  assignment->set_steps_per_epoch(testing::kStepsPerEpoch);
  assignment->set_train_samples(testing::kTrainSamples);
  assignment->set_test_samples(5);
  PastProgress past;
  past.steps_done = 4;
  past.samples = 28;
  past.trained_for = absl::Seconds(3);
  JobRun run(assignment, {}, past, At(0));
  ASSERT_TRUE(run.running());
  EXPECT_EQ(run.steps_done(), 4u);
  const auto worker = [&run](int index) { return run.plan().worker(index); };
  EXPECT_TRUE(run.OnReport(kWorker1, Step(worker(0), 3), At(1)).steps.empty());
  EXPECT_TRUE(run.OnReport(kWorker1, Step(worker(0), 4), At(1)).steps.empty());
  const auto effects = run.OnReport(kWorker2, Step(worker(1), 4), At(1));
  ASSERT_EQ(effects.steps.size(), 1u);
  EXPECT_EQ(effects.steps[0].step(), 4u);
  EXPECT_EQ(effects.steps[0].epoch(), 1u);
  EXPECT_DOUBLE_EQ(effects.steps[0].samples_per_second(), (28 + 8) / 4.0);
}

}  // namespace
}  // namespace sangam
