#include "server/core/control_plane.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/plan/forecast.h"
#include "gtest/gtest.h"
#include "proto/admin_service.pb.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::Daemon;
using testing::Evaluated;
using testing::Failed;
using testing::Finished;
using testing::LayoutOf;
using testing::PipelineJob;
using testing::Ready;
using testing::Registration;
using testing::SmallJob;
using testing::Step;

constexpr int kUnavailable = static_cast<int>(absl::StatusCode::kUnavailable);

// A coordinator and daemons that live as long as they are not told otherwise.
class ControlPlaneTest : public ::testing::Test {
 protected:
  ControlPlaneTest() : ControlPlaneTest(ControlPlane::Options()) {}
  explicit ControlPlaneTest(ControlPlane::Options options) : control_(options) {}

  ControlPlane::Moment Now() const {
    return {absl::Seconds(10) + elapsed_, absl::FromUnixSeconds(1'000'000) + elapsed_};
  }

  // Lets time pass; daemons that are alive send a heartbeat every second.
  void Pass(double seconds) {
    for (int i = 0; i < static_cast<int>(seconds * 10 + 0.5); ++i) {
      elapsed_ += absl::Milliseconds(100);
      if (++ticks_ % 10 == 0) {
        for (const auto& [name, daemon] : alive_) control_.Renew(daemon, Now()).IgnoreError();
      }
      control_.Advance(Now());
      PlanAll();
    }
  }

  // What the coordinator does between two calls.
  void PlanAll() {
    while (const auto job = control_.TakeToPlan()) {
      control_.OnPlanned(job, ReportOn(*job), Now(), job->again ? resume_ : ResumePoint());
    }
  }
  static v1::PlanReport ReportOn(const ControlPlane::ToPlan& job) {
    return MakeForecasts(job.spec, job.layout, job.view.facts, job.view.measured);
  }

  // A name that begins with 's' is a server's.
  static v1::DaemonRole RoleOf(const std::string& name) {
    return name[0] == 's' ? v1::SERVER : v1::WORKER;
  }

  absl::Status TryJoin(const std::string& name, uint64_t incarnation = 1) {
    const v1::DaemonIdentity daemon = Daemon(RoleOf(name), name, incarnation);
    const absl::Status status = control_.Register(Registration(daemon), Now());
    if (status.ok()) alive_[name] = daemon;
    PlanAll();
    return status;
  }
  void Join(const std::string& name, uint64_t incarnation = 1) {
    const absl::Status status = TryJoin(name, incarnation);
    ASSERT_TRUE(status.ok()) << status;
  }

  // From now on the daemon says nothing.
  void Kill(const std::string& name) { alive_.erase(name); }

  void Leave(const std::string& name, const std::string& reason) {
    v1::LeaveRequest request;
    *request.mutable_daemon() = alive_.at(name);
    request.set_reason(reason);
    control_.Leave(request, Now());
    alive_.erase(name);
    PlanAll();
  }

  static JobTable::Submission SubmissionOf(const v1::JobSpec& spec) {
    return {spec, LayoutOf(spec), ""};
  }
  uint64_t SubmitSpec(const v1::JobSpec& spec) {
    const auto job = control_.Submit(SubmissionOf(spec), Now());
    EXPECT_TRUE(job.ok()) << job.status();
    PlanAll();
    return job.ok() ? job->id() : 0;
  }
  uint64_t Submit(const std::string& name, uint32_t workers = 2, uint32_t servers = 1) {
    return SubmitSpec(SmallJob(name, workers, servers));
  }

  absl::Status Report(const std::string& name, uint64_t job,
                      const std::vector<v1::JobReport>& reports, uint64_t generation = 1) {
    v1::ReportRequest request;
    *request.mutable_daemon() = alive_.at(name);
    request.set_job(job);
    request.set_generation(generation);
    for (const v1::JobReport& report : reports) *request.add_report() = report;
    const absl::Status status = control_.Report(request, Now());
    PlanAll();
    return status;
  }

  // What the daemon must do for the job; nothing when it does not hold it.
  std::optional<v1::Assignment> AssignmentOf(const std::string& name, uint64_t job) {
    const auto entry = control_.AssignmentsOf(alive_.at(name));
    if (!entry.ok() || entry->assignments.count(job) == 0) return std::nullopt;
    return *entry->assignments.at(job);
  }
  std::string PhaseOf(const std::string& name, uint64_t job) {
    const auto assignment = AssignmentOf(name, job);
    return assignment.has_value() ? v1::Assignment::Phase_Name(assignment->phase()) : "none";
  }

  const v1::Job& Job(uint64_t id) { return *control_.jobs().Get(id); }
  // "RUNNING: all workers and servers are ready".
  std::string StateOf(uint64_t id) {
    return absl::StrCat(v1::JobState_Name(Job(id).state()), ": ", Job(id).reason());
  }

  // A job on w-1, w-2 and s-1 that is being prepared.
  uint64_t Starting() {
    Join("w-1");
    Join("w-2");
    Join("s-1");
    return Submit("job");
  }
  void AllReady(uint64_t job) {
    for (const auto& [name, daemon] : alive_) {
      if (PhaseOf(name, job) == "PREPARE") {
        EXPECT_TRUE(Report(name, job, {Ready()}, Job(job).generation()).ok());
      }
    }
    ASSERT_EQ(Job(job).state(), v1::RUNNING) << Job(job).reason();
  }
  uint64_t Running() {
    const uint64_t job = Starting();
    AllReady(job);
    return job;
  }
  // Both workers report everything up to the end.
  void RunToTheEnd(uint64_t job) {
    const v1::Assignment assignment = *AssignmentOf(Job(job).worker(0), job);
    const v1::Plan& plan = assignment.plan();
    for (const v1::WorkerPlan& worker : plan.worker()) {
      std::vector<v1::JobReport> reports;
      for (uint64_t step = assignment.first_step(); step < testing::kStepsTotal; ++step) {
        reports.push_back(Step(worker, step));
      }
      reports.push_back(Evaluated(worker, testing::kStepsTotal));
      reports.push_back(Finished());
      ASSERT_TRUE(Report(worker.name(), job, reports, plan.generation()).ok());
    }
  }
  uint64_t RunOneJob(const std::string& name) {
    const uint64_t job = Submit(name);
    AllReady(job);
    RunToTheEnd(job);
    EXPECT_EQ(Job(job).state(), v1::SUCCEEDED) << Job(job).reason();
    return job;
  }

  std::string CancelJob(uint64_t job, const std::string& reason) {
    v1::CancelJobRequest request;
    request.set_job(absl::StrCat(job));
    request.set_reason(reason);
    const auto cancelled = control_.Cancel(request, Now());
    PlanAll();
    return cancelled.ok()
               ? absl::StrCat(v1::JobState_Name(cancelled->state()), ": ", cancelled->reason())
               : cancelled.status().ToString(absl::StatusToStringMode::kWithNoExtraData);
  }

  // "QUEUED STARTING RUNNING".
  std::string HistoryOf(uint64_t id) {
    std::string states;
    for (const v1::StateChange& change : Job(id).history()) {
      absl::StrAppend(&states, states.empty() ? "" : " ", v1::JobState_Name(change.state()));
    }
    return states;
  }
  // Why the job lost its daemons the last time.
  std::string LossOf(uint64_t id) {
    std::string loss;
    for (const v1::StateChange& change : Job(id).history()) {
      if (change.state() == v1::PREEMPTED) loss = change.reason();
    }
    return loss;
  }

  ControlPlane control_;
  // Where a job goes on that starts again.
  ResumePoint resume_;
  std::map<std::string, v1::DaemonIdentity> alive_;
  absl::Duration elapsed_;
  int ticks_ = 0;
};

TEST_F(ControlPlaneTest, AJobRunsFromTheQueueToItsEnd) {
  const uint64_t job = Submit("mnist");
  EXPECT_EQ(StateOf(job),
            "QUEUED: waiting for 2 of 2 workers (have: none) and 1 of 1 server (have: none)");
  Join("w-1");
  Join("s-1");
  EXPECT_EQ(StateOf(job), "QUEUED: waiting for 1 of 2 workers (have: w-1)");
  Join("w-2");
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-2 and servers s-1");
  EXPECT_EQ(PhaseOf("w-1", job), "PREPARE");
  EXPECT_EQ(PhaseOf("s-1", job), "PREPARE");
  EXPECT_EQ(Job(job).server_address(0), "s-1:7070");
  EXPECT_EQ(Job(job).generation(), 1u);

  AllReady(job);
  EXPECT_EQ(PhaseOf("w-2", job), "RUN");
  EXPECT_EQ(AssignmentOf("w-2", job)->steps_total(), testing::kStepsTotal);
  EXPECT_EQ(AssignmentOf("s-1", job)->steps_per_epoch(), testing::kStepsPerEpoch);
  EXPECT_EQ(AssignmentOf("w-1", job)->train_samples(), testing::kTrainSamples);
  EXPECT_EQ(AssignmentOf("w-1", job)->test_samples(), 5u);
  EXPECT_EQ(AssignmentOf("s-1", job)->plan().generation(), 1u);

  Pass(2);
  RunToTheEnd(job);
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
  EXPECT_EQ(Job(job).progress().steps_done(), testing::kStepsTotal);
  EXPECT_EQ(Job(job).progress().samples(), 2 * testing::kTrainSamples);
  EXPECT_EQ(Job(job).progress().samples_per_second(), 20);
  ASSERT_EQ(Job(job).evaluation_size(), 1);
  EXPECT_EQ(Job(job).evaluation(0).accuracy(), 0.6);
  EXPECT_TRUE(Job(job).weights_available());
  EXPECT_EQ(PhaseOf("w-1", job), "none");
  EXPECT_EQ(PhaseOf("s-1", job), "HOLD");

  const auto events = control_.jobs().EventsAfter(job, 0, 100);
  EXPECT_TRUE(events->complete);
  // Four changes of state, three waits, six steps, one evaluation.
  EXPECT_EQ(events->events.size(), 14u);
  EXPECT_EQ(events->events.back().state().state(), v1::SUCCEEDED);
}

TEST_F(ControlPlaneTest, AKilledWorkersJobIsQueuedAgainWithinALease) {
  const uint64_t job = Running();
  Pass(3);
  Kill("w-1");
  Pass(4.8);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Pass(0.2);
  EXPECT_EQ(StateOf(job), "QUEUED: waiting for 1 of 2 workers (have: w-2)");
  EXPECT_EQ(HistoryOf(job), "QUEUED STARTING RUNNING PREEMPTED QUEUED");
  EXPECT_EQ(LossOf(job), "worker w-1 lost: no sign of life for 5.0 s (lease 5 s)");
  EXPECT_EQ(PhaseOf("w-2", job), "none");
  EXPECT_EQ(PhaseOf("s-1", job), "none");
  EXPECT_EQ(Job(job).worker_size(), 0);
  EXPECT_EQ(Job(job).server_memory_bytes(), 0u);
  EXPECT_FALSE(Job(job).weights_available());
}

TEST_F(ControlPlaneTest, AKilledServerIsNamedAlthoughTheWorkersComplainFirst) {
  const uint64_t job = Running();
  Pass(3);
  Kill("s-1");
  Pass(0.5);
  EXPECT_TRUE(Report("w-1", job, {Failed(kUnavailable, "link to server s-1 lost")}).ok());
  EXPECT_TRUE(Report("w-2", job, {Failed(kUnavailable, "link to server s-1 lost")}).ok());
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Pass(4.5);
  EXPECT_EQ(
      StateOf(job),
      "FAILED: server s-1 lost: no sign of life for 5.0 s (lease 5 s); there is no checkpoint "
      "to go on from");
}

TEST_F(ControlPlaneTest, ABrokenLinkBetweenLivingDaemonsFailsTheJobAfterALease) {
  const uint64_t job = Running();
  EXPECT_TRUE(Report("w-1", job, {Failed(kUnavailable, "link to server s-1 lost")}).ok());
  Pass(4.9);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Pass(0.1);
  EXPECT_EQ(StateOf(job), "FAILED: worker w-1 failed: UNAVAILABLE: link to server s-1 lost");
}

TEST_F(ControlPlaneTest, AWorkerThatLeavesGivesItsJobBack) {
  const uint64_t job = Running();
  Leave("w-2", "SIGTERM");
  EXPECT_EQ(Job(job).state(), v1::QUEUED);
  EXPECT_EQ(LossOf(job), "worker w-2 left: SIGTERM");
  // Leaving again, or by a process that is not there, changes nothing.
  alive_["w-2"] = Daemon(v1::WORKER, "w-2");
  Leave("w-2", "SIGTERM");
}

TEST_F(ControlPlaneTest, AJobThatIsNotReadyInTimeFailsAndSaysWhoIsMissing) {
  const uint64_t job = Starting();
  EXPECT_TRUE(Report("w-2", job, {Ready()}).ok());
  Pass(59.9);
  EXPECT_EQ(Job(job).state(), v1::STARTING);
  Pass(0.1);
  EXPECT_EQ(StateOf(job), "FAILED: not ready within 60 s: worker w-1, server s-1");
  EXPECT_EQ(PhaseOf("w-2", job), "none");
}

TEST_F(ControlPlaneTest, WorkersThatSeeDifferentDataFailTheJobBeforeItRuns) {
  const uint64_t job = Starting();
  EXPECT_TRUE(Report("s-1", job, {Ready()}).ok());
  EXPECT_TRUE(Report("w-1", job, {Ready()}).ok());
  v1::JobReport other = Ready();
  other.mutable_ready()->set_train_samples(19);
  EXPECT_TRUE(Report("w-2", job, {other}).ok());
  EXPECT_EQ(StateOf(job),
            "FAILED: the workers do not see the same data: training samples: worker w-1 found 20, "
            "worker w-2 found 19");
}

TEST_F(ControlPlaneTest, CancelWorksInEveryStateAndIsFinal) {
  EXPECT_EQ(CancelJob(1, ""),
            "NOT_FOUND: job \"1\": there is none with this number or name; list the jobs to see");
  const uint64_t starting = Starting();
  const uint64_t queued = Submit("later");
  EXPECT_EQ(CancelJob(queued, "second thoughts"), "CANCELLED: second thoughts");
  EXPECT_EQ(CancelJob(starting, ""), "CANCELLED: cancelled by the user");
  EXPECT_EQ(PhaseOf("w-1", starting), "none");
  EXPECT_EQ(PhaseOf("s-1", starting), "none");
  EXPECT_EQ(CancelJob(starting, "again"), "CANCELLED: cancelled by the user");
  EXPECT_EQ(Job(starting).history_size(), 3);

  const uint64_t running = Submit("third");
  AllReady(running);
  EXPECT_EQ(CancelJob(running, "enough"), "CANCELLED: enough");
  EXPECT_EQ(PhaseOf("w-2", running), "none");
  EXPECT_FALSE(Job(running).weights_available());

  const uint64_t finished = RunOneJob("fourth");
  EXPECT_EQ(CancelJob(finished, "too late"), "SUCCEEDED: all steps done");
  EXPECT_TRUE(Job(finished).weights_available());
}

TEST_F(ControlPlaneTest, OneJobAfterTheOther) {
  const uint64_t first = Running();
  const uint64_t second = Submit("second", 2, 1);
  const uint64_t third = Submit("third", 1, 1);
  EXPECT_EQ(StateOf(second), "QUEUED: waiting for 2 of 2 workers, busy with job 1 (job)");
  EXPECT_EQ(StateOf(third), "QUEUED: waiting for 1 of 1 worker, busy with job 1 (job)");
  RunToTheEnd(first);
  EXPECT_EQ(Job(second).state(), v1::STARTING);
  EXPECT_EQ(StateOf(third), "QUEUED: waiting for 1 of 1 worker, busy with job 2 (second)");
  // The server holds the first job's weights and prepares the second one.
  EXPECT_EQ(PhaseOf("s-1", first), "HOLD");
  EXPECT_EQ(PhaseOf("s-1", second), "PREPARE");
}

// Joins w-1, w-2 and s-1 and submits a job for one worker that is not planned yet.
class PlanningTest : public ControlPlaneTest {
 protected:
  PlanningTest() {
    for (const char* name : {"w-1", "w-2", "s-1"}) Join(name);
    job_ = control_.Submit(SubmissionOf(SmallJob("job", 1, 1)), Now())->id();
    first_ = control_.TakeToPlan();
  }
  void OnPlanned(const std::shared_ptr<const ControlPlane::ToPlan>& job) {
    control_.OnPlanned(job, ReportOn(*job), Now());
  }
  // As Leave, but nothing is planned afterwards.
  void Lose(const std::string& name) {
    v1::LeaveRequest request;
    *request.mutable_daemon() = alive_.at(name);
    control_.Leave(request, Now());
    alive_.erase(name);
  }

  uint64_t job_ = 0;
  std::shared_ptr<const ControlPlane::ToPlan> first_;
};

TEST_F(PlanningTest, AJobIsPlannedOnceAndStartsWithItsPlan) {
  ASSERT_NE(first_, nullptr);
  EXPECT_EQ(first_->job, job_);
  ASSERT_EQ(first_->workers.size(), 1u);
  EXPECT_EQ(first_->workers[0].name, "w-1");
  EXPECT_EQ(first_->view.facts.worker_size(), 1);
  EXPECT_EQ(Job(job_).state(), v1::QUEUED);
  EXPECT_EQ(control_.TakeToPlan(), nullptr);
  // Meanwhile life goes on; another job waits for its turn.
  Pass(1);
  const uint64_t later = control_.Submit(SubmissionOf(SmallJob("later", 2, 1)), Now())->id();
  EXPECT_EQ(control_.TakeToPlan(), nullptr);
  OnPlanned(first_);
  EXPECT_EQ(StateOf(job_), "STARTING: on workers w-1 and servers s-1");
  EXPECT_EQ(StateOf(later), "QUEUED: waiting for 1 of 2 workers, busy with job 1 (job)");
  EXPECT_EQ(control_.TakeToPlan(), nullptr);
  // Once only.
  OnPlanned(first_);
  EXPECT_EQ(Job(job_).history_size(), 2);
}

TEST_F(PlanningTest, AJobOfHigherPriorityIsPlannedInstead) {
  v1::JobSpec spec = SmallJob("urgent", 2, 1);
  spec.set_priority(1);
  const uint64_t urgent = control_.Submit(SubmissionOf(spec), Now())->id();
  OnPlanned(first_);
  EXPECT_EQ(Job(job_).state(), v1::QUEUED);
  const auto second = control_.TakeToPlan();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->job, urgent);
  OnPlanned(second);
  EXPECT_EQ(Job(urgent).state(), v1::STARTING);
}

TEST_F(PlanningTest, APlanForDaemonsThatHaveGoneIsDroppedAndMadeAnew) {
  Lose("w-1");
  OnPlanned(first_);
  EXPECT_EQ(Job(job_).state(), v1::QUEUED);
  const auto second = control_.TakeToPlan();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->workers[0].name, "w-2");
  Lose("s-1");
  OnPlanned(second);
  EXPECT_EQ(StateOf(job_), "QUEUED: waiting for 1 of 1 server (have: none)");
  EXPECT_EQ(control_.TakeToPlan(), nullptr);
}

TEST_F(PlanningTest, APlanForAProcessThatWasStartedAgainIsDropped) {
  Lose("w-1");
  const v1::DaemonIdentity again = Daemon(v1::WORKER, "w-1", 2);
  ASSERT_TRUE(control_.Register(Registration(again), Now()).ok());
  alive_["w-1"] = again;
  OnPlanned(first_);
  EXPECT_EQ(Job(job_).state(), v1::QUEUED);
  PlanAll();
  EXPECT_EQ(AssignmentOf("w-1", job_)->plan().worker(0).incarnation(), 2u);
}

TEST_F(PlanningTest, AWorkerWhoseLeaseRanOutMeanwhileGetsNoJob) {
  Kill("w-1");
  elapsed_ += absl::Seconds(2);
  control_.Renew(alive_.at("w-2"), Now()).IgnoreError();
  control_.Renew(alive_.at("s-1"), Now()).IgnoreError();
  elapsed_ += absl::Seconds(2);
  control_.Renew(alive_.at("w-2"), Now()).IgnoreError();
  control_.Renew(alive_.at("s-1"), Now()).IgnoreError();
  elapsed_ += absl::Seconds(2);
  OnPlanned(first_);
  EXPECT_EQ(Job(job_).state(), v1::QUEUED);
  EXPECT_EQ(control_.TakeToPlan()->workers.at(0).name, "w-2");
}

TEST_F(PlanningTest, APlanForAJobThatWasCancelledIsDropped) {
  EXPECT_EQ(CancelJob(job_, ""), "CANCELLED: cancelled by the user");
  OnPlanned(first_);
  EXPECT_EQ(Job(job_).state(), v1::CANCELLED);
  EXPECT_EQ(PhaseOf("w-1", job_), "none");
}

TEST_F(ControlPlaneTest, AfterALossTheNextJobStartsOnTheDaemonsThatAreLeft) {
  const uint64_t first = Running();
  const uint64_t second = Submit("second", 1, 1);
  Kill("w-1");
  Pass(6);
  EXPECT_EQ(Job(first).state(), v1::QUEUED);
  EXPECT_EQ(StateOf(second), "STARTING: on workers w-2 and servers s-1");
}

TEST_F(ControlPlaneTest, AQueuedJobWaitsWithoutLivingWorkersAndStartsWhenOneComes) {
  Join("s-1");
  const uint64_t first = Submit("first", 1, 1);
  Join("w-1");
  Kill("w-1");
  Pass(6);
  EXPECT_EQ(StateOf(first), "QUEUED: waiting for 1 of 1 worker (have: none)");
  CancelJob(first, "");
  const uint64_t second = Submit("second", 1, 1);
  EXPECT_EQ(StateOf(second), "QUEUED: waiting for 1 of 1 worker (have: none)");
  Pass(600);
  EXPECT_EQ(Job(second).state(), v1::QUEUED);
  Join("w-9");
  EXPECT_EQ(Job(second).state(), v1::STARTING);
}

TEST_F(ControlPlaneTest, AProcessThatCameBackUnderItsNameIsAnotherDaemon) {
  const uint64_t job = Running();
  Kill("w-1");
  Pass(1);
  // Started again at once: the name is still taken, the job still runs.
  EXPECT_EQ(TryJoin("w-1", 2).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Pass(5);
  EXPECT_EQ(Job(job).state(), v1::QUEUED);
  CancelJob(job, "");
  Join("w-1", 2);
  const uint64_t second = Submit("second");
  EXPECT_EQ(AssignmentOf("w-1", second)->plan().worker(0).incarnation(), 2u);
  // The old process is fenced, whatever it says.
  v1::ReportRequest zombie;
  *zombie.mutable_daemon() = Daemon(v1::WORKER, "w-1", 1);
  zombie.set_job(second);
  zombie.set_generation(1);
  *zombie.add_report() = Failed(13, "boom");
  EXPECT_EQ(control_.Report(zombie, Now()).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(control_.Renew(zombie.daemon(), Now()).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Job(second).state(), v1::STARTING);
}

TEST_F(ControlPlaneTest, ADaemonThatWasSilentForALeaseHoldsNothingWhenItIsBack) {
  const uint64_t job = Running();
  const v1::DaemonIdentity daemon = alive_.at("w-1");
  Kill("w-1");
  Pass(6);
  EXPECT_EQ(control_.Renew(daemon, Now()).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(control_.AssignmentsOf(daemon).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Job(job).state(), v1::QUEUED);
  Join("w-1");
  // As any other it may take the job up.
  EXPECT_EQ(PhaseOf("w-1", job), "PREPARE");
  EXPECT_EQ(AssignmentOf("w-1", job)->plan().generation(), 2u);
}

TEST_F(ControlPlaneTest, ALeaseThatRanOutCountsEvenBeforeTheNextTick) {
  const uint64_t job = Running();
  Kill("w-1");
  Pass(4.9);
  elapsed_ += absl::Milliseconds(200);
  Join("w-1", 2);
  EXPECT_EQ(LossOf(job), "worker w-1 lost: no sign of life for 5.1 s (lease 5 s)");
  // And the new process takes over at once.
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-2 and servers s-1, again from step 0");
}

TEST_F(ControlPlaneTest, NobodyIsLostBecauseTheCoordinatorStoodStill) {
  const uint64_t job = Running();
  Pass(1);
  elapsed_ += absl::Seconds(3600);  // the whole process was suspended
  control_.Advance(Now());
  Pass(10);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Kill("w-1");
  Pass(6);
  EXPECT_EQ(Job(job).state(), v1::QUEUED);
}

TEST_F(ControlPlaneTest, ReportsCountOnceAndAreASignOfLife) {
  const uint64_t job = Running();
  const v1::Plan plan = AssignmentOf("w-1", job)->plan();
  Pass(1);
  const v1::DaemonIdentity silent = alive_.at("w-1");
  for (uint64_t step = 0; step < 5; ++step) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      alive_["w-1"] = silent;
      EXPECT_TRUE(Report("w-1", job, {Ready(), Step(plan.worker(0), step)}).ok());
      EXPECT_TRUE(Report("w-2", job, {Step(plan.worker(1), step)}).ok());
      Kill("w-1");  // no heartbeat: reports alone keep it alive
    }
    Pass(3);
  }
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  EXPECT_EQ(Job(job).progress().steps_done(), 5u);
  EXPECT_EQ(Job(job).progress().samples(), 36u);
}

TEST_F(ControlPlaneTest, ReportsOfAnotherGenerationOrJobAreDropped) {
  const uint64_t job = Running();
  Join("w-3");
  EXPECT_EQ(Report("w-1", job, {Failed(13, "boom")}, 2).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Report("w-1", job + 1, {Failed(13, "boom")}).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Report("w-3", job, {Failed(13, "boom")}).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  EXPECT_TRUE(Report("w-1", job, {Failed(13, "boom"), Finished()}).ok());
  EXPECT_EQ(StateOf(job), "FAILED: worker w-1 failed: INTERNAL: boom");
  EXPECT_EQ(Report("w-1", job, {Finished()}).code(), absl::StatusCode::kAborted);
}

TEST_F(ControlPlaneTest, ReportsAreBounded) {
  const uint64_t job = Running();
  EXPECT_EQ(Report("w-1", job, std::vector<v1::JobReport>(1025, Ready())).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Report("w-1", job, std::vector<v1::JobReport>(1024, Ready())).ok());
  EXPECT_TRUE(Report("w-1", job, {Failed(13, std::string(1 << 20, 'x'))}).ok());
  EXPECT_LT(Job(job).reason().size(), 5000u);
}

TEST_F(ControlPlaneTest, TheWeightsOfALostServerAreGone) {
  Join("w-1");
  Join("w-2");
  Join("s-1");
  const uint64_t job = RunOneJob("job");
  EXPECT_TRUE(Job(job).weights_available());
  Kill("s-1");
  Pass(6);
  EXPECT_FALSE(Job(job).weights_available());
  EXPECT_EQ(Job(job).state(), v1::SUCCEEDED);
  Join("s-1");
  EXPECT_EQ(PhaseOf("s-1", job), "none");
}

class TwoHoldsTest : public ControlPlaneTest {
 protected:
  static ControlPlane::Options Options() {
    ControlPlane::Options options;
    options.keep_finished_jobs = 2;
    return options;
  }
  TwoHoldsTest() : ControlPlaneTest(Options()) {}
};

TEST_F(TwoHoldsTest, OnlyTheNewestFinishedJobsKeepTheirWeights) {
  Join("w-1");
  Join("w-2");
  Join("s-1");
  std::vector<uint64_t> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(RunOneJob(absl::StrCat("job-", i)));
  std::string phases;
  for (const uint64_t job : jobs) {
    absl::StrAppend(&phases, PhaseOf("s-1", job), Job(job).weights_available() ? "+ " : "- ");
  }
  EXPECT_EQ(phases, "none- none- HOLD+ HOLD+ ");
}

class NoHoldsTest : public ControlPlaneTest {
 protected:
  static ControlPlane::Options Options() {
    ControlPlane::Options options;
    options.keep_finished_jobs = 0;
    return options;
  }
  NoHoldsTest() : ControlPlaneTest(Options()) {}
};

TEST_F(NoHoldsTest, AServerLetsGoAtTheEndOfTheJob) {
  Join("w-1");
  Join("w-2");
  Join("s-1");
  const uint64_t job = RunOneJob("job");
  EXPECT_EQ(PhaseOf("s-1", job), "none");
  EXPECT_FALSE(Job(job).weights_available());
}

TEST_F(ControlPlaneTest, MemoryLimitsOfServersAreKept) {
  // 4 x 8 + 8 + 8 x 3 + 3 = 67 weights; with momentum 12 bytes each while training, 4 when held.
  v1::RegisterRequest server = Registration(Daemon(v1::SERVER, "s-1"));
  server.set_memory_bytes(12 * 67 + 4 * 67);
  ASSERT_TRUE(control_.Register(server, Now()).ok());
  alive_["s-1"] = server.daemon();
  Join("w-1");
  Join("w-2");
  const uint64_t first = RunOneJob("first");
  const uint64_t second = RunOneJob("second");
  EXPECT_TRUE(Job(first).weights_available());
  // Room for one held job besides the running one: the oldest goes.
  Submit("third");
  EXPECT_FALSE(Job(first).weights_available());
  EXPECT_TRUE(Job(second).weights_available());

  Leave("s-1", "");
  server.mutable_daemon()->set_name("s-2");
  server.set_memory_bytes(12 * 67 - 1);
  ASSERT_TRUE(control_.Register(server, Now()).ok());
  alive_["s-2"] = server.daemon();
  const uint64_t fourth = Submit("fourth");
  EXPECT_EQ(StateOf(fourth),
            "FAILED: server s-2 would hold 804 bytes of weights and optimizer state, its limit is "
            "803; ask for more servers (resources.servers) or raise --memory_limit");
}

// Jobs that lose a daemon and go on with others.
class TakeoverTest : public ControlPlaneTest {
 protected:
  static v1::JobReport DeviceLost() {
    v1::JobReport report = Failed(13, "cuda: Gemm: an illegal memory access");
    report.mutable_failed()->set_daemon_at_fault(true);
    return report;
  }
  // On w-1, w-2 and s-1; w-3 and s-2 are there too.
  uint64_t RunningWithSpares(bool checkpoints) {
    for (const char* name : {"w-1", "w-2", "w-3", "s-1", "s-2"}) Join(name);
    v1::JobSpec spec = SmallJob("job", 2, 1);
    if (checkpoints) spec.mutable_checkpoint()->set_every_steps(2);
    const uint64_t job = SubmitSpec(spec);
    AllReady(job);
    return job;
  }
  // Steps [0, end) are done.
  void Train(uint64_t job, uint64_t end) {
    const v1::Plan plan = AssignmentOf(Job(job).worker(0), job)->plan();
    for (const v1::WorkerPlan& worker : plan.worker()) {
      for (uint64_t step = 0; step < end; ++step) {
        ASSERT_TRUE(Report(worker.name(), job, {Step(worker, step)}, plan.generation()).ok());
      }
    }
  }
  void HasCheckpoint(uint64_t job, uint64_t step) {
    v1::CheckpointSummary summary;
    summary.set_step(step);
    control_.OnCheckpointsFound(job, {summary}, Now());
    resume_ = {step, step};
  }
  std::string FaultOf(const std::string& name) {
    const v1::Cluster cluster = control_.DescribeCluster(Now());
    for (const v1::DaemonStatus& daemon : cluster.daemon()) {
      if (daemon.name() == name) return daemon.fault();
    }
    return "not there";
  }
};

TEST_F(TakeoverTest, WithoutACheckpointTheJobBeginsAnewOnOtherWorkers) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 4);
  Kill("w-1");
  Pass(5);
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-2, w-3 and servers s-1, again from step 0");
  EXPECT_EQ(Job(job).generation(), 2u);
  EXPECT_EQ(Job(job).progress().steps_done(), 0u);
  EXPECT_EQ(AssignmentOf("w-3", job)->first_step(), 0u);
  // What the first generation still says counts no more.
  EXPECT_EQ(Report("w-2", job, {Failed(13, "boom")}).code(), absl::StatusCode::kAborted);
  AllReady(job);
  RunToTheEnd(job);
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
  EXPECT_EQ(HistoryOf(job), "QUEUED STARTING RUNNING PREEMPTED QUEUED STARTING RUNNING SUCCEEDED");
  EXPECT_EQ(Job(job).progress().steps_done(), testing::kStepsTotal);
  EXPECT_EQ(Job(job).evaluation_size(), 1);
}

TEST_F(TakeoverTest, WithACheckpointItGoesOnFromThere) {
  const uint64_t job = RunningWithSpares(true);
  Train(job, 5);
  HasCheckpoint(job, 4);
  resume_.updates = 3;
  Kill("w-2");
  Pass(5);
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-3 and servers s-1, again from step 4");
  EXPECT_EQ(Job(job).progress().steps_done(), 4u);
  EXPECT_EQ(Job(job).skipped_steps(), 1u);
  EXPECT_EQ(AssignmentOf("s-1", job)->first_step(), 4u);
  EXPECT_EQ(AssignmentOf("s-1", job)->first_updates(), 3u);
  AllReady(job);
  EXPECT_EQ(AssignmentOf("w-3", job)->first_step(), 4u);
  EXPECT_EQ(control_.jobs().StepsOf(job).size(), 0u);
  RunToTheEnd(job);
  EXPECT_EQ(Job(job).progress().steps_done(), testing::kStepsTotal);
  EXPECT_EQ(control_.jobs().StepsOf(job).size(), 2u);
  // All is done but for the last checkpoint, which nobody makes here.
  Pass(30);
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
}

TEST_F(TakeoverTest, ALostServerTakesTheJobToItsCheckpoint) {
  const uint64_t job = RunningWithSpares(true);
  HasCheckpoint(job, 2);
  Kill("s-1");
  Pass(5);
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-2 and servers s-2, again from step 2");
  EXPECT_EQ(LossOf(job), "server s-1 lost: no sign of life for 5.0 s (lease 5 s)");
}

TEST_F(TakeoverTest, AWorkerWithoutItsDeviceGivesItsJobBackAndGetsNoOther) {
  const uint64_t job = RunningWithSpares(false);
  // The neighbours notice first.
  ASSERT_TRUE(Report("w-2", job, {Failed(kUnavailable, "link to worker w-1 lost")}).ok());
  ASSERT_TRUE(Report("w-1", job, {DeviceLost()}).ok());
  EXPECT_EQ(LossOf(job),
            "worker w-1 has lost its device: INTERNAL: cuda: Gemm: an illegal memory access");
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-2, w-3 and servers s-1, again from step 0");
  EXPECT_EQ(FaultOf("w-1"), "cuda: Gemm: an illegal memory access");
  EXPECT_EQ(FaultOf("w-2"), "");
  // It lives and is answered.
  Pass(10);
  EXPECT_TRUE(control_.Renew(alive_.at("w-1"), Now()).ok());
  const uint64_t next = Submit("next", 1, 1);
  EXPECT_EQ(StateOf(next), "QUEUED: waiting for 1 of 1 worker, busy with job 1 (job)");
  EXPECT_EQ(control_.CheckAdmission(SubmissionOf(SmallJob("three", 3, 1)), false).message(),
            "needs 3 workers, cluster has 2 (w-2, w-3)");
  // The same process again has the same device.
  Join("w-1");
  EXPECT_EQ(Job(next).state(), v1::QUEUED);
  Kill("w-1");
  Pass(6);
  Join("w-1");
  EXPECT_EQ(Job(next).state(), v1::QUEUED);
  Leave("w-1", "");
  Join("w-1", 2);
  EXPECT_EQ(FaultOf("w-1"), "");
  EXPECT_EQ(StateOf(next), "STARTING: on workers w-1 and servers s-2");
}

TEST_F(TakeoverTest, AFaultIsKnownThoughTheJobIsGone) {
  const uint64_t job = RunningWithSpares(false);
  CancelJob(job, "");
  EXPECT_EQ(Report("w-1", job, {DeviceLost()}).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(StateOf(Submit("next", 2, 1)), "STARTING: on workers w-2, w-3 and servers s-1");
}

TEST_F(TakeoverTest, AServerIsNotBelievedToHaveADevice) {
  const uint64_t job = RunningWithSpares(true);
  ASSERT_TRUE(Report("s-1", job, {DeviceLost()}).ok());
  EXPECT_EQ(StateOf(job),
            "FAILED: server s-1 failed: INTERNAL: cuda: Gemm: an illegal memory access");
  EXPECT_EQ(FaultOf("s-1"), "");
}

TEST_F(TakeoverTest, TheJobFailsWithEveryReasonWhenItHasStartedTooOften) {
  Join("s-1");
  Join("w-1", 1);
  const uint64_t job = Submit("job", 1, 1);
  for (uint64_t i = 1; i <= 11; ++i) {
    ASSERT_EQ(Job(job).state(), v1::STARTING) << i;
    ASSERT_EQ(Job(job).generation(), i);
    if (i % 2 == 0) AllReady(job);
    Leave("w-1", absl::StrCat("reason ", i));
    Join("w-1", i + 1);
  }
  EXPECT_EQ(Job(job).state(), v1::FAILED);
  EXPECT_EQ(Job(job).reason().rfind(
                "worker w-1 left: reason 11; the job has started again 10 times already, after: "
                "worker w-1 left: reason 1; worker w-1 left: reason 2;",
                0),
            0u)
      << Job(job).reason();
  EXPECT_NE(Job(job).reason().find("reason 10"), std::string::npos);
}

TEST_F(TakeoverTest, AJobThatFitsNoMoreWaitsForOtherDaemonsAndHoldsBackNobody) {
  for (const char* name : {"w-1", "w-2", "s-1"}) Join(name);
  const uint64_t job = Submit("job");
  AllReady(job);
  v1::RegisterRequest small = Registration(Daemon(v1::WORKER, "w-3"));
  small.set_memory_bytes(100);
  ASSERT_TRUE(control_.Register(small, Now()).ok());
  alive_["w-3"] = small.daemon();
  Leave("w-1", "");
  EXPECT_EQ(StateOf(job).rfind("QUEUED: waiting for other daemons; on workers w-2, w-3 and servers "
                               "s-1: DATA_PARALLEL cannot run: worker w-3 needs",
                               0),
            0u)
      << StateOf(job);
  const uint64_t next = Submit("next", 1, 1);
  EXPECT_EQ(Job(next).state(), v1::STARTING);
  CancelJob(next, "");
  EXPECT_EQ(Job(job).state(), v1::QUEUED);
  EXPECT_EQ(control_.TakeToPlan(), nullptr);
  Join("w-0");
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-0, w-2 and servers s-1, again from step 0");
}

TEST_F(TakeoverTest, AJobThatNoServerHasTheMemoryForAnyMoreWaits) {
  Join("w-1");
  Join("s-1");
  const uint64_t job = SubmitSpec([] {
    v1::JobSpec spec = SmallJob("job", 1, 1);
    spec.mutable_checkpoint()->set_every_steps(2);
    return spec;
  }());
  AllReady(job);
  HasCheckpoint(job, 2);
  v1::RegisterRequest small = Registration(Daemon(v1::SERVER, "s-2"));
  small.set_memory_bytes(10);
  ASSERT_TRUE(control_.Register(small, Now()).ok());
  alive_["s-2"] = small.daemon();
  Leave("s-1", "");
  EXPECT_EQ(StateOf(job).rfind("QUEUED: waiting for other daemons; server s-2 would hold", 0), 0u)
      << StateOf(job);
  Join("s-3");
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1 and servers s-3, again from step 2");
}

TEST_F(TakeoverTest, ACheckpointThatIsBeingWrittenIsWaitedFor) {
  const uint64_t job = RunningWithSpares(true);
  v1::JobReport snapshot;
  snapshot.mutable_snapshot()->set_step(2);
  snapshot.mutable_snapshot()->set_updates(2);
  ASSERT_TRUE(Report("s-1", job, {snapshot}).ok());
  const auto checkpoint = control_.TakeCheckpoint();
  ASSERT_TRUE(checkpoint.has_value());
  Leave("w-1", "");
  // Nor is it overtaken meanwhile.
  const uint64_t younger = Submit("younger", 1);
  EXPECT_EQ(StateOf(job), "QUEUED: waiting until its checkpoint is written");
  EXPECT_EQ(StateOf(younger), "QUEUED: waiting behind job 1 (job)");
  v1::CheckpointSummary summary;
  summary.set_step(2);
  resume_ = {2, 2};
  control_.OnCheckpoint(*checkpoint, std::vector<v1::CheckpointSummary>{summary}, Now());
  PlanAll();
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-2, w-3 and servers s-1, again from step 2");
}

// Jobs whose daemons drain: on w-1, w-2 and s-1, with w-3 and s-2 in reserve.
class DrainTest : public TakeoverTest {
 protected:
  DrainTest() { control_.BeginCheckpoints(); }

  void Drain(const std::string& name) {
    ASSERT_TRUE(control_.Drain(alive_.at(name), Now()).ok());
    PlanAll();
  }
  absl::Status Cordon(const std::string& name, bool undrain = false) {
    v1::DrainDaemonRequest request;
    request.set_name(name);
    request.set_undrain(undrain);
    const absl::Status status = control_.DrainDaemon(request, Now()).status();
    PlanAll();
    return status;
  }
  bool IsDrained(const std::string& name) { return control_.IsDrained(alive_.at(name)); }
  // The steps before the stop are done, and the coordinator has seen that the job stands.
  void Stand(uint64_t job, uint64_t stop) {
    Train(job, stop);
    Pass(0.3);
  }
  // "steps [2], stop 2".
  std::string Asked(const std::string& name, uint64_t job) {
    const auto assignment = AssignmentOf(name, job);
    if (!assignment.has_value()) return "none";
    return absl::StrCat("steps [", absl::StrJoin(assignment->snapshot_step(), ", "), "]",
                        assignment->has_stop_step() ? ", stop " : "",
                        assignment->has_stop_step() ? absl::StrCat(assignment->stop_step()) : "");
  }
  void Copied(uint64_t job, uint64_t step) {
    v1::JobReport report;
    report.mutable_snapshot()->set_step(step);
    report.mutable_snapshot()->set_updates(step);
    EXPECT_TRUE(Report(Job(job).server(0), job, {report}, Job(job).generation()).ok());
  }
  void Write(uint64_t step, bool well = true) {
    const auto taken = control_.TakeCheckpoint();
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->step, step);
    v1::CheckpointSummary summary;
    summary.set_step(step);
    if (well) {
      resume_ = {step, step};
      control_.OnCheckpoint(*taken, std::vector<v1::CheckpointSummary>{summary}, Now());
    } else {
      control_.OnCheckpoint(*taken, absl::ResourceExhaustedError("the disk is full"), Now());
    }
    PlanAll();
  }
};

TEST_F(DrainTest, TheJobOfAWorkerStopsIsWrittenDownAndGoesOnElsewhere) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 2);
  Drain("w-2");
  // The step that is under way is finished, and one that a fast job may have begun meanwhile.
  EXPECT_EQ(Asked("s-1", job), "steps [], stop 3");
  EXPECT_EQ(Asked("w-1", job), "steps [], stop 3");
  // Servers have no memory for a copy of this job; when it stands, the copy takes none.
  Train(job, 3);
  EXPECT_EQ(Asked("s-1", job), "steps [], stop 3");
  Stand(job, 3);
  EXPECT_EQ(Asked("s-1", job), "steps [3], stop 3");
  EXPECT_FALSE(IsDrained("w-2"));
  Copied(job, 3);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Write(3);
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-3 and servers s-1, again from step 3");
  EXPECT_EQ(Job(job).history(3).reason(), "worker w-2 drains; stopped before step 3");
  EXPECT_EQ(Job(job).progress().steps_done(), 3u);
  EXPECT_TRUE(IsDrained("w-2"));
  EXPECT_EQ(Asked("w-2", job), "none");
  Leave("w-2", "SIGTERM");
  AllReady(job);
  EXPECT_FALSE(AssignmentOf("w-1", job)->has_stop_step());
  RunToTheEnd(job);
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
  // Nothing was lost.
  EXPECT_TRUE(control_.jobs().LossesOf(job).empty());
  // It has not asked for the checkpoint.
  EXPECT_EQ(control_.TakeUnwanted(), std::vector<uint64_t>{job});
  EXPECT_EQ(Job(job).checkpoint_size(), 0);
}

// Writing may take longer than workers have.
TEST_F(DrainTest, WhatAllServersHaveCopiedNeedsNoWorkers) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 1);
  Drain("w-2");
  Stand(job, 2);
  EXPECT_FALSE(IsDrained("w-2"));
  control_.TakeChanges();
  Copied(job, 2);
  EXPECT_TRUE(IsDrained("w-2"));
  // It hears of it at once.
  EXPECT_TRUE(control_.TakeChanges().assignments);
  EXPECT_TRUE(control_.AwaitedWorkers(job).empty());
  const auto taken = control_.TakeCheckpoint();
  ASSERT_TRUE(taken.has_value());
  Leave("w-2", "SIGTERM");
  // Nor does it matter what becomes of the others.
  EXPECT_TRUE(absl::IsAborted(
      Report("w-1", job, {Failed(static_cast<int>(absl::StatusCode::kInternal), "w-2 is gone")})));
  Kill("w-1");
  Pass(100);
  EXPECT_EQ(StateOf(job), "RUNNING: all workers and servers are ready");
  EXPECT_EQ(Asked("s-1", job), "steps [2], stop 2");
  Join("w-1", 2);
  v1::CheckpointSummary summary;
  summary.set_step(2);
  resume_ = {2, 2};
  control_.OnCheckpoint(*taken, std::vector<v1::CheckpointSummary>{summary}, Now());
  PlanAll();
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-3 and servers s-1, again from step 2");
  EXPECT_EQ(Job(job).history(3).reason(), "worker w-2 drains; stopped before step 2");
  EXPECT_TRUE(control_.jobs().LossesOf(job).empty());
}

// The server that counts votes and the workers tell by ways of their own.
TEST_F(DrainTest, AStepThatWasSkippedIsCountedOnceAlsoWhenItIsToldLate) {
  const uint64_t job = RunningWithSpares(true);
  const auto skipped = [](uint64_t step) {
    v1::JobReport report;
    report.mutable_skipped_step()->set_step(step);
    report.mutable_skipped_step()->set_why("inf");
    return report;
  };
  const auto messages = [this, job] {
    std::vector<std::string> found;
    const auto events = control_.jobs().EventsAfter(job, 0, 1000);
    for (const v1::JobEvent& event : events->events) {
      if (event.message().find("was skipped") != std::string::npos) {
        found.push_back(event.message());
      }
    }
    return found;
  };
  Drain("w-1");
  Drain("w-3");
  ASSERT_EQ(Asked("s-1", job), "steps [1], stop 1");
  Copied(job, 1);
  Train(job, 1);
  resume_ = {1, 0};
  const auto taken = control_.TakeCheckpoint();
  ASSERT_TRUE(taken.has_value());
  v1::CheckpointSummary summary;
  summary.set_step(1);
  control_.OnCheckpoint(*taken, std::vector<v1::CheckpointSummary>{summary}, Now());
  PlanAll();
  ASSERT_EQ(Job(job).state(), v1::QUEUED);
  EXPECT_EQ(Job(job).skipped_steps(), 0u);
  // Step 1 is done again, and told again.
  EXPECT_TRUE(Report("s-1", job, {skipped(0), skipped(1)}).ok());
  EXPECT_TRUE(Report("s-1", job, {skipped(0)}).ok());
  EXPECT_EQ(Job(job).skipped_steps(), 1u);
  EXPECT_EQ(messages().size(), 1u);
  // Nobody else counts votes.
  EXPECT_EQ(Report("s-2", job, {skipped(0)}).code(), absl::StatusCode::kAborted);
  Join("w-4");
  ASSERT_EQ(Job(job).state(), v1::STARTING);
  EXPECT_TRUE(Report("s-1", job, {skipped(0)}).ok());
  EXPECT_EQ(Job(job).skipped_steps(), 1u);
  EXPECT_EQ(messages().size(), 1u);
}

TEST_F(DrainTest, AStepThatWasSkippedIsCountedOnceAlsoWhenTheJobHasGoneOn) {
  const uint64_t job = RunningWithSpares(true);
  Drain("w-2");
  Copied(job, 1);
  Train(job, 1);
  Write(1);
  // The checkpoint knows that there was no update.
  ASSERT_EQ(Job(job).state(), v1::STARTING);
  AllReady(job);
  v1::JobReport report;
  report.mutable_skipped_step()->set_step(0);
  EXPECT_TRUE(Report("s-1", job, {report}).ok());
  EXPECT_EQ(Job(job).skipped_steps(), 0u);
  const auto events = control_.jobs().EventsAfter(job, 0, 1000);
  EXPECT_EQ(events->events.back().message().substr(0, 18), "step 0 was skipped");
}

TEST_F(DrainTest, WhenItIsCopiedItIsTooLateToGoOn) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 1);
  ASSERT_TRUE(Cordon("w-2").ok());
  Stand(job, 2);
  Copied(job, 2);
  ASSERT_TRUE(Cordon("w-2", true).ok());
  EXPECT_EQ(Asked("w-1", job), "steps [], stop 2");
  EXPECT_EQ(Asked("s-1", job), "steps [2], stop 2");
  Write(2);
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-2 and servers s-1, again from step 2");
}

TEST_F(DrainTest, ALostServerIsALossAlsoWhenItIsCopied) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 1);
  Drain("w-2");
  Stand(job, 2);
  Copied(job, 2);
  Leave("s-1", "");
  EXPECT_EQ(StateOf(job), "FAILED: server s-1 left; there is no checkpoint to go on from");
}

// One worker stands, another one waits for it in vain.
TEST_F(DrainTest, AWorkerThatWaitsForOneThatStandsIsNoFaultOfTheJob) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 1);
  Drain("w-2");
  EXPECT_TRUE(
      Report("w-1", job,
             {Failed(static_cast<int>(absl::StatusCode::kDeadlineExceeded), "nothing comes")})
          .ok());
  Pass(6);
  EXPECT_EQ(Job(job).history(3).state(), v1::PREEMPTED);
  EXPECT_EQ(Job(job).history(3).reason(), "worker w-1 failed: DEADLINE_EXCEEDED: nothing comes");
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-3 and servers s-1, again from step 0");
}

TEST_F(DrainTest, ThePagesOfAServerGoToAnother) {
  const uint64_t job = RunningWithSpares(true);
  Train(job, 1);
  Drain("s-1");
  EXPECT_EQ(Asked("s-1", job), "steps [2], stop 2");
  Copied(job, 2);
  Write(2);
  // The losses of its last step have not come.
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Train(job, 2);
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-2 and servers s-2, again from step 2");
  EXPECT_TRUE(IsDrained("s-1"));
}

// However long it takes: whoever writes it has deadlines of its own.
TEST_F(DrainTest, AServerStaysUntilItsPagesAreWritten) {
  const uint64_t job = RunningWithSpares(true);
  Train(job, 1);
  Drain("s-1");
  Copied(job, 2);
  Train(job, 2);
  const auto taken = control_.TakeCheckpoint();
  ASSERT_TRUE(taken.has_value());
  Pass(700);
  EXPECT_FALSE(IsDrained("s-1"));
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  control_.OnCheckpoint(*taken, absl::UnavailableError("server s-1: broken"), Now());
  EXPECT_TRUE(IsDrained("s-1"));
}

TEST_F(DrainTest, SeveralMayDrainAtOnceAndTheJobWaitsForOthers) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 1);
  Drain("w-1");
  Drain("w-2");
  Stand(job, 2);
  Copied(job, 2);
  Write(2);
  EXPECT_EQ(Job(job).history(3).reason(), "worker w-1, worker w-2 drain; stopped before step 2");
  EXPECT_EQ(StateOf(job), "QUEUED: waiting for 1 of 2 workers (have: w-3)");
  Join("w-4");
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-3, w-4 and servers s-1, again from step 2");
}

TEST_F(DrainTest, AStepThatAllWorkersHavePassedIsNotTheOne) {
  const uint64_t job = RunningWithSpares(false);
  Pass(100);
  Train(job, 1);
  Drain("w-2");
  ASSERT_EQ(Asked("w-1", job), "steps [], stop 2");
  Train(job, 3);
  EXPECT_EQ(Asked("w-1", job), "steps [], stop 5");
}

TEST_F(DrainTest, AJobAtItsEndEndsWhereItIs) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 5);
  Drain("w-2");
  EXPECT_EQ(Asked("w-1", job), "steps []");
  EXPECT_FALSE(IsDrained("w-2"));
  RunToTheEnd(job);
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
  EXPECT_TRUE(IsDrained("w-2"));
}

TEST_F(DrainTest, AJobThatPreparesIsGivenBackAtOnce) {
  for (const char* name : {"w-1", "w-2", "w-3", "s-1"}) Join(name);
  const uint64_t job = Submit("job");
  ASSERT_EQ(Job(job).state(), v1::STARTING);
  Drain("w-1");
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-2, w-3 and servers s-1, again from step 0");
  EXPECT_TRUE(IsDrained("w-1"));
}

TEST_F(DrainTest, WhoDrainsGetsNoJobs) {
  for (const char* name : {"w-1", "w-2", "s-1"}) Join(name);
  EXPECT_FALSE(IsDrained("w-2"));
  Drain("w-2");
  EXPECT_TRUE(IsDrained("w-2"));
  const uint64_t job = Submit("job");
  EXPECT_EQ(StateOf(job), "QUEUED: waiting for 1 of 2 workers (have: w-1)");
  const v1::Cluster cluster = control_.DescribeCluster(Now());
  for (const v1::DaemonStatus& daemon : cluster.daemon()) {
    EXPECT_EQ(daemon.draining(), daemon.name() == "w-2" ? "its process is about to end" : "");
  }
}

TEST_F(DrainTest, WhenTheStepCannotBeWrittenDownTheJobSaysWhatIsDoneAgain) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 1);
  Drain("w-2");
  Stand(job, 2);
  Copied(job, 2);
  Write(2, false);
  EXPECT_EQ(
      Job(job).history(3).reason(),
      "worker w-2 drains; the step could not be written down, so what was done since the last "
      "one is done again");
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-3 and servers s-1, again from step 0");
}

TEST_F(TakeoverTest, WithNobodyWhoWritesAJobOfADrainingServerBeginsAnew) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 2);
  ASSERT_TRUE(control_.Drain(alive_.at("s-1"), Now()).ok());
  PlanAll();
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-2 and servers s-2, again from step 0");
}

TEST_F(DrainTest, ADaemonThatIsLostMeanwhileIsALoss) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 1);
  Drain("w-2");
  Kill("w-1");
  Pass(6);
  EXPECT_EQ(LossOf(job).substr(0, 15), "worker w-1 lost");
  EXPECT_TRUE(IsDrained("w-2"));
}

TEST_F(DrainTest, WhatAUserTakesOutOfUseComesBackWhenHeSaysSo) {
  const uint64_t job = RunningWithSpares(false);
  Train(job, 1);
  EXPECT_EQ(Cordon("nobody").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(Cordon("w-2").ok());
  EXPECT_EQ(Asked("w-1", job), "steps [], stop 2");
  ASSERT_TRUE(Cordon("w-2", true).ok());
  EXPECT_EQ(Asked("w-1", job), "steps []");
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  // Whichever process has the name.
  ASSERT_TRUE(Cordon("w-3").ok());
  Leave("w-3", "");
  Join("w-3", 2);
  ASSERT_TRUE(Cordon("w-2").ok());
  Stand(job, 2);
  Copied(job, 2);
  Write(2);
  EXPECT_EQ(StateOf(job), "QUEUED: waiting for 1 of 2 workers (have: w-1)");
  ASSERT_TRUE(Cordon("w-3", true).ok());
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-3 and servers s-1, again from step 2");
}

TEST_F(TakeoverTest, LossesAreForgottenWhenTheJobHasGotFurther) {
  const uint64_t job = RunningWithSpares(true);
  Join("w-4");
  for (int i = 0; i < 3; ++i) {
    Leave("w-2", "");
    Join("w-2", 2 + i);
    if (Job(job).state() == v1::STARTING) AllReady(job);
  }
  const size_t before = control_.jobs().LossesOf(job).size();
  EXPECT_GE(before, 1u);
  Train(job, 4);
  HasCheckpoint(job, 4);
  Leave(Job(job).worker(0), "");
  EXPECT_EQ(Job(job).state(), v1::STARTING);
  EXPECT_TRUE(control_.jobs().LossesOf(job).empty());
  // The next one without progress counts again.
  AllReady(job);
  Leave(Job(job).worker(0), "");
  EXPECT_EQ(control_.jobs().LossesOf(job).size(), 1u);
}

TEST_F(TakeoverTest, AnotherNumberOfSamplesThanTheCheckpointsFailsTheJob) {
  const uint64_t job = RunningWithSpares(true);
  Train(job, 4);
  HasCheckpoint(job, 4);
  resume_.train_samples = 19;
  Leave("w-1", "");
  for (const char* name : {"w-2", "w-3", "s-1"}) {
    ASSERT_TRUE(Report(name, job, {Ready()}, 2).ok());
  }
  EXPECT_EQ(StateOf(job),
            "FAILED: data: found 20 training samples, expected 19 as when the checkpoint of step 4 "
            "was made");
}

TEST_F(TakeoverTest, AJobInBf16WaitsForWorkersOfTheKindOfItsCheckpoint) {
  v1::RegisterRequest native = Registration(Daemon(v1::WORKER, "w-1"));
  native.add_native_precision(v1::BF16);
  ASSERT_TRUE(control_.Register(native, Now()).ok());
  alive_["w-1"] = native.daemon();
  for (const char* name : {"w-2", "s-1"}) Join(name);
  v1::JobSpec spec = SmallJob("job", 1, 1);
  spec.set_precision(v1::BF16);
  spec.mutable_checkpoint()->set_every_steps(2);
  const uint64_t job = SubmitSpec(spec);
  AllReady(job);
  ASSERT_EQ(Job(job).worker(0), "w-1");
  HasCheckpoint(job, 2);
  resume_.worker_kind = "cpu (native BF16)";
  Leave("w-1", "");
  EXPECT_EQ(StateOf(job),
            "QUEUED: waiting for 1 of 1 worker of kind cpu (native BF16) (have: 1 x cpu)");
  *native.mutable_daemon() = Daemon(v1::WORKER, "w-3");
  ASSERT_TRUE(control_.Register(native, Now()).ok());
  alive_["w-3"] = native.daemon();
  PlanAll();
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-3 and servers s-1, again from step 2");
}

// The others would take it too, but the result is to be of one kind.
TEST_F(TakeoverTest, AJobStaysWithTheKindOfItsWorkers) {
  const auto join_gpu = [&](const char* name) {
    v1::RegisterRequest gpu = Registration(Daemon(v1::WORKER, name));
    gpu.set_backend("cuda");
    gpu.mutable_device()->set_name("H");
    ASSERT_TRUE(control_.Register(gpu, Now()).ok());
    alive_[name] = gpu.daemon();
  };
  join_gpu("g-1");
  for (const char* name : {"w-1", "s-1"}) Join(name);
  v1::JobSpec spec = SmallJob("job", 1, 1);
  spec.mutable_checkpoint()->set_every_steps(2);
  const uint64_t job = SubmitSpec(spec);
  AllReady(job);
  ASSERT_EQ(Job(job).worker(0), "g-1");
  HasCheckpoint(job, 2);
  resume_.worker_kind = "cuda (H)";
  Leave("g-1", "");
  EXPECT_EQ(StateOf(job), "QUEUED: waiting for 1 of 1 worker of kind cuda (H) (have: 1 x cpu)");
  join_gpu("g-2");
  PlanAll();
  EXPECT_EQ(StateOf(job), "STARTING: on workers g-2 and servers s-1, again from step 2");
}

// As after a restart of the coordinator, which does not know what the workers were: both kinds are
// free, and the job would get the other one first.
TEST_F(TakeoverTest, TheKindOfTheCheckpointCounts) {
  for (const char* name : {"w-1", "w-2", "s-1"}) Join(name);
  v1::RegisterRequest gpu = Registration(Daemon(v1::WORKER, "g-1"));
  gpu.set_backend("cuda");
  gpu.mutable_device()->set_name("H");
  v1::JobSpec spec = SmallJob("job", 1, 1);
  spec.mutable_checkpoint()->set_every_steps(2);
  const uint64_t job = SubmitSpec(spec);
  AllReady(job);
  ASSERT_EQ(Job(job).worker(0), "w-1");
  HasCheckpoint(job, 2);
  ASSERT_TRUE(control_.Register(gpu, Now()).ok());
  alive_["g-1"] = gpu.daemon();
  resume_.worker_kind = "cuda (H)";
  Leave("w-1", "");
  PlanAll();
  EXPECT_EQ(StateOf(job), "STARTING: on workers g-1 and servers s-1, again from step 2");
}

// What somebody else trained is gone on from by workers like his, also after a loss.
TEST_F(TakeoverTest, ACheckpointOfAnotherJobKeepsItsKindToo) {
  for (const char* name : {"w-1", "w-2", "s-1"}) Join(name);
  const uint64_t job = SubmitSpec(SmallJob("job", 1, 1));
  AllReady(job);
  resume_.worker_kind = "cuda (H)";
  resume_.step = 1;
  Leave("w-1", "");
  PlanAll();
  EXPECT_EQ(StateOf(job), "QUEUED: waiting for 1 of 1 worker of kind cuda (H) (have: 1 x cpu)");
}

TEST_F(TakeoverTest, AJobThatGoesOnFromAnotherOneGetsWorkersWithItsKernels) {
  const auto join = [&](const char* name, const char* kernels) {
    v1::RegisterRequest worker = Registration(Daemon(v1::WORKER, name));
    worker.mutable_device()->set_compute_capability(kernels);
    ASSERT_TRUE(control_.Register(worker, Now()).ok());
    alive_[name] = worker.daemon();
  };
  join("w-1", "AVX2");
  join("w-2", "AVX512");
  Join("s-1");
  const auto resume = [&](const char* name, const char* kind) {
    const auto job = control_.Submit(SubmissionOf(SmallJob(name, 1, 1)), Now());
    while (const auto planned = control_.TakeToPlan()) {
      control_.OnPlanned(planned, ReportOn(*planned), Now(), ResumePoint{1, 1, kind});
    }
    return job->id();
  };
  const uint64_t first = resume("first", "cpu (AVX512)");
  EXPECT_EQ(StateOf(first), "STARTING: on workers w-2 and servers s-1");
  // It waits for them, but not for ever for such as there are none.
  const uint64_t second = resume("second", "cpu (AVX512)");
  EXPECT_EQ(StateOf(second),
            "QUEUED: waiting for 1 of 1 worker of kind cpu (AVX512), busy with job 1 (first)");
  CancelJob(second, "");
  const uint64_t third = resume("third", "cpu (SSE41)");
  EXPECT_EQ(
      StateOf(third),
      "FAILED: resume_from: kind of workers: found cpu (AVX2), expected cpu (SSE41) as of the "
      "checkpoint; their sums differ");
}

TEST_F(TakeoverTest, AJobThatWaitsToStartAgainCanBeCancelled) {
  const uint64_t job = RunningWithSpares(false);
  Leave("w-1", "");
  Leave("w-2", "");
  EXPECT_EQ(StateOf(job), "QUEUED: waiting for 1 of 2 workers (have: w-3)");
  EXPECT_EQ(CancelJob(job, ""), "CANCELLED: cancelled by the user");
}

TEST_F(ControlPlaneTest, TwoHundredLivesAndDeathsLeaveNothingBehind) {
  for (uint64_t i = 1; i <= 200; ++i) {
    Join("w-1", i);
    Join("s-1", i);
    const uint64_t job = Submit("job", 1, 1);
    AllReady(job);
    ASSERT_EQ(Job(job).state(), v1::RUNNING);
    Kill("w-1");
    Kill("s-1");
    Pass(5.1);
    ASSERT_EQ(Job(job).state(), v1::FAILED);
  }
  EXPECT_EQ(control_.DescribeCluster(Now()).daemon_size(), 2);
  EXPECT_EQ(control_.jobs().size(), 200u);
}

TEST_F(ControlPlaneTest, TheClusterSaysWhoHoldsWhat) {
  const uint64_t job = Running();
  Kill("w-2");
  Pass(2);
  std::map<std::string, v1::DaemonStatus> daemons;
  v1::Cluster cluster = control_.DescribeCluster(Now());
  for (const v1::DaemonStatus& daemon : cluster.daemon()) daemons[daemon.name()] = daemon;
  ASSERT_EQ(daemons.size(), 3u);
  EXPECT_EQ(daemons["s-1"].role(), "server");
  EXPECT_EQ(daemons["s-1"].address(), "s-1:7070");
  EXPECT_EQ(daemons["w-1"].role(), "worker");
  EXPECT_EQ(daemons["w-1"].address(), "w-1:7070");
  EXPECT_EQ(daemons["w-1"].backend(), "cpu");
  EXPECT_EQ(daemons["w-1"].flops_per_second(), 1e10);
  EXPECT_EQ(daemons["w-1"].threads(), 2u);
  ASSERT_EQ(daemons["w-1"].job_size(), 1);
  EXPECT_EQ(daemons["w-1"].job(0), job);
  EXPECT_TRUE(daemons["w-2"].alive());
  EXPECT_GE(daemons["w-2"].silent_ms(), 2000u);
  Pass(4);
  cluster = control_.DescribeCluster(Now());
  for (const v1::DaemonStatus& daemon : cluster.daemon()) {
    EXPECT_EQ(daemon.alive(), daemon.name() != "w-2");
  }
}

// Jobs whose model is spread over workers.
class SpreadJobTest : public ControlPlaneTest {
 protected:
  void JoinAll() {
    for (const char* name : {"w-1", "w-2", "w-3", "s-1"}) Join(name);
  }
  void JoinWithMemory(const std::string& name, uint64_t bytes) {
    v1::RegisterRequest request = Registration(Daemon(RoleOf(name), name));
    request.set_memory_bytes(bytes);
    ASSERT_TRUE(control_.Register(request, Now()).ok());
    alive_[name] = request.daemon();
    PlanAll();
  }
  uint64_t RunningPipeline() {
    JoinAll();
    const uint64_t job = SubmitSpec(PipelineJob("pipeline"));
    AllReady(job);
    return job;
  }
  // What a worker did in a step: a forward pass that begins and ends after so many milliseconds.
  static v1::JobReport Traced(uint64_t step, uint64_t begin_ms, uint64_t end_ms) {
    v1::JobReport report;
    report.mutable_trace()->set_step(step);
    v1::TraceEvent* event = report.mutable_trace()->add_event();
    event->set_activity(v1::FORWARD);
    event->set_begin_us(1000 * begin_ms);
    event->set_duration_us(1000 * (end_ms - begin_ms));
    return report;
  }
};

TEST_F(SpreadJobTest, AssignmentsSayWhoComputesWhatAndTheJobShowsIt) {
  const uint64_t job = RunningPipeline();
  const std::optional<v1::Assignment> assignment = AssignmentOf("w-2", job);
  ASSERT_TRUE(assignment.has_value());
  const v1::Plan& plan = assignment->plan();
  EXPECT_EQ(plan.ranks(), 3u);
  ASSERT_EQ(plan.stage_size(), 3);
  ASSERT_EQ(plan.worker_size(), 3);
  EXPECT_EQ(plan.worker(1).rank(), 1u);
  EXPECT_EQ(plan.worker(1).address(), "w-2:7070");
  EXPECT_EQ(assignment->train_samples(), testing::kTrainSamples);
  EXPECT_EQ(assignment->test_samples(), 5u);
  EXPECT_EQ(Job(job).strategy(), v1::MODEL_PARALLEL);
  EXPECT_EQ(Job(job).schedule(), v1::ONE_F_ONE_B);
  ASSERT_EQ(Job(job).stage_size(), 3);
  EXPECT_EQ(Job(job).stage(1).first_block(), "middle");
  EXPECT_EQ(Job(job).stage(1).worker(0), "w-2");
  EXPECT_EQ(Job(job).plan_reason(), "");
}

TEST_F(SpreadJobTest, APipelineRunsToTheEnd) {
  const uint64_t job = RunningPipeline();
  const v1::Plan plan = AssignmentOf("w-1", job)->plan();
  std::vector<v1::JobReport> reports;
  for (uint64_t step = 0; step < testing::kStepsTotal; ++step) {
    reports.push_back(Step(plan.worker(2), step));
  }
  reports.push_back(Evaluated(plan.worker(2), testing::kStepsTotal));
  reports.push_back(Finished());
  EXPECT_TRUE(Report("w-3", job, reports).ok());
  EXPECT_TRUE(Report("w-1", job, {Finished()}).ok());
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  EXPECT_TRUE(Report("w-2", job, {Finished()}).ok());
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
}

TEST_F(SpreadJobTest, AutoSaysWhyItChose) {
  JoinAll();
  v1::JobSpec spec = PipelineJob("job");
  spec.set_strategy(v1::AUTO);
  const uint64_t job = SubmitSpec(spec);
  EXPECT_NE(Job(job).strategy(), v1::AUTO);
  EXPECT_NE(Job(job).strategy(), v1::STRATEGY_UNSPECIFIED);
  EXPECT_NE(Job(job).plan_reason().find(v1::Strategy_Name(Job(job).strategy())), std::string::npos)
      << Job(job).plan_reason();
}

TEST_F(SpreadJobTest, AJobThatWaitedForWorkersThatAreTooSmallFailsWhenTheyCome) {
  Join("s-1");
  const uint64_t job = Submit("job", 1, 1);
  EXPECT_EQ(Job(job).state(), v1::QUEUED);
  JoinWithMemory("w-1", 100);
  EXPECT_EQ(Job(job).state(), v1::FAILED);
  EXPECT_NE(Job(job).reason().find("DATA_PARALLEL cannot run: worker w-1 needs"), std::string::npos)
      << Job(job).reason();
  // The next one is looked at on its own.
  Join("w-0");
  EXPECT_EQ(Job(Submit("next", 1, 1)).state(), v1::STARTING);
}

TEST_F(SpreadJobTest, APlanIsForTheWorkersThatAJobWouldGet) {
  const JobTable::Submission submission = SubmissionOf(PipelineJob("job"));
  const auto names = [this, &submission] {
    std::string names;
    const ClusterView view = control_.ViewFor(submission);
    for (const v1::WorkerFacts& worker : view.facts.worker()) {
      absl::StrAppend(&names, names.empty() ? "" : " ", worker.name());
    }
    return names;
  };
  EXPECT_EQ(names(), "");
  JoinAll();
  Join("w-0");
  EXPECT_EQ(names(), "w-0 w-1 w-2");
  Leave("w-1", "");
  EXPECT_EQ(names(), "w-0 w-2 w-3");
  const uint64_t job = SubmitSpec(submission.spec);
  ASSERT_EQ(Job(job).worker_size(), 3);
  EXPECT_EQ(Job(job).worker(2), "w-3");
  EXPECT_EQ(names(), "w-0 w-2 w-3");
  EXPECT_EQ(control_.ViewFor(submission).facts.link_bytes_per_second(), 1.25e9);
}

TEST_F(SpreadJobTest, TracesAndUtilizationOfARunningJob) {
  const uint64_t job = RunningPipeline();
  EXPECT_FALSE(control_.traces().Get(job).ok());
  EXPECT_TRUE(Report("w-1", job, {Traced(3, 0, 50)}).ok());
  EXPECT_TRUE(Report("w-2", job, {Traced(3, 50, 75)}).ok());
  EXPECT_FALSE(Job(job).has_utilization());
  EXPECT_TRUE(Report("w-3", job, {Traced(3, 75, 100)}).ok());
  EXPECT_EQ(Job(job).utilization().step(), 3u);
  EXPECT_DOUBLE_EQ(Job(job).utilization().span_seconds(), 0.1);
  // One lane of two computed.
  ASSERT_EQ(AssignmentOf("w-1", job)->plan().lanes(), 2u);
  EXPECT_DOUBLE_EQ(Job(job).utilization().bubble(), 1 - 1.0 / 6);
  CancelJob(job, "");
  const auto trace = control_.traces().Get(job);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->name(), "pipeline");
  ASSERT_EQ(trace->worker_size(), 3);
  EXPECT_EQ(trace->worker(2).worker(), "w-3");
  EXPECT_EQ(trace->worker(2).rank(), 2u);
  EXPECT_EQ(trace->worker(2).step_size(), 1);
}

TEST_F(SpreadJobTest, MeasuredBlocksServeTheNextPlan) {
  const uint64_t job = RunningPipeline();
  const JobTable::Submission same = SubmissionOf(PipelineJob("other"));
  EXPECT_TRUE(control_.ViewFor(same).measured.empty());
  for (uint32_t block = 0; block < 3; ++block) {
    v1::JobReport report;
    v1::BlockTime* time = report.mutable_block_times()->add_block();
    time->set_block(block);
    time->set_forward_seconds(1);
    time->set_samples(20);
    EXPECT_TRUE(Report(absl::StrCat("w-", block + 1), job, {report}).ok());
  }
  EXPECT_EQ(control_.ViewFor(same).measured.size(), 3u);
}

TEST_F(SpreadJobTest, TheCoordinatorServesTheDataOfOneJobAtATime) {
  JoinAll();
  v1::JobSpec spec = SmallJob("job", 2, 1);
  spec.mutable_data()->set_served(true);
  control_.TakeChanges();
  EXPECT_TRUE(control_.ServedJobs().empty());
  const uint64_t job = SubmitSpec(spec);
  EXPECT_TRUE(control_.TakeChanges().served);
  ASSERT_EQ(control_.ServedJobs().size(), 1u);
  EXPECT_EQ(control_.ServedJobs()[0]->plan().job(), job);
  EXPECT_EQ(control_.ServedJobs()[0]->phase(), v1::Assignment::PREPARE);
  v1::JobReport nothing;
  nothing.mutable_ready();
  for (const char* name : {"w-1", "w-2", "s-1"}) EXPECT_TRUE(Report(name, job, {nothing}).ok());
  EXPECT_EQ(Job(job).state(), v1::STARTING);
  control_.OnServedData(job, 2, Ready().ready(), Now());
  control_.OnServedData(job + 1, 1, absl::InternalError("of another job"), Now());
  EXPECT_EQ(Job(job).state(), v1::STARTING);
  EXPECT_FALSE(control_.TakeChanges().served);
  control_.OnServedData(job, 1, Ready().ready(), Now());
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  EXPECT_TRUE(control_.TakeChanges().served);
  EXPECT_EQ(control_.ServedJobs().at(0)->phase(), v1::Assignment::RUN);
  EXPECT_EQ(control_.ServedJobs().at(0)->train_samples(), testing::kTrainSamples);
  RunToTheEnd(job);
  EXPECT_EQ(Job(job).state(), v1::SUCCEEDED);
  EXPECT_TRUE(control_.TakeChanges().served);
  EXPECT_TRUE(control_.ServedJobs().empty());
  // Nothing to say any more.
  control_.OnServedData(job, 1, absl::InternalError("too late"), Now());
  EXPECT_EQ(Job(job).state(), v1::SUCCEEDED);
}

TEST_F(SpreadJobTest, DataThatCannotBeServedFailsTheJob) {
  JoinAll();
  v1::JobSpec spec = SmallJob("job", 2, 1);
  spec.mutable_data()->set_served(true);
  const uint64_t job = SubmitSpec(spec);
  control_.OnServedData(job, 1, absl::NotFoundError("train-images: no such file"), Now());
  EXPECT_EQ(StateOf(job),
            "FAILED: coordinator (data) failed: NOT_FOUND: train-images: no such file");
  EXPECT_TRUE(control_.ServedJobs().empty());
}

TEST_F(ControlPlaneTest, ChangesTellWhoMustBeWoken) {
  control_.TakeChanges();
  Join("s-1");
  EXPECT_TRUE(control_.TakeChanges().assignments);
  const ControlPlane::Changes none = control_.TakeChanges();
  EXPECT_FALSE(none.assignments);
  EXPECT_FALSE(none.events);
  EXPECT_TRUE(none.notices.empty());
  Submit("job");
  const ControlPlane::Changes submitted = control_.TakeChanges();
  EXPECT_FALSE(submitted.assignments);
  EXPECT_TRUE(submitted.events);
}

// Four workers and two servers, shared by several jobs.
class SeveralJobsTest : public ControlPlaneTest {
 protected:
  SeveralJobsTest() {
    for (const char* name : {"s-1", "s-2", "w-1", "w-2", "w-3", "w-4"}) Join(name);
  }
  uint64_t SubmitAt(int32_t priority, uint32_t workers) {
    v1::JobSpec spec = SmallJob(absl::StrCat("p", priority), workers, 1);
    spec.set_priority(priority);
    return SubmitSpec(spec);
  }
  absl::Status DeleteJob(uint64_t job) {
    v1::DeleteJobRequest request;
    request.set_job(absl::StrCat(job));
    return control_.Delete(request, Now());
  }
};

TEST_F(SeveralJobsTest, TwoJobsTrainSideBySide) {
  const uint64_t a = Submit("a", 2, 2);
  const uint64_t b = Submit("b", 2, 2);
  EXPECT_EQ(StateOf(a), "STARTING: on workers w-1, w-2 and servers s-1, s-2");
  EXPECT_EQ(StateOf(b), "STARTING: on workers w-3, w-4 and servers s-1, s-2");
  AllReady(b);
  AllReady(a);
  // Reports of the one say nothing of the other.
  EXPECT_EQ(Report("w-1", b, {Finished()}).code(), absl::StatusCode::kAborted);
  RunToTheEnd(b);
  EXPECT_EQ(Job(b).state(), v1::SUCCEEDED);
  EXPECT_EQ(Job(a).state(), v1::RUNNING);
  EXPECT_EQ(PhaseOf("s-1", a), "RUN");
  EXPECT_EQ(PhaseOf("s-1", b), "HOLD");
  EXPECT_EQ(PhaseOf("w-3", b), "none");
  RunToTheEnd(a);
  EXPECT_EQ(Job(a).state(), v1::SUCCEEDED);
}

class OneJobOfEachTest : public ControlPlaneTest {
 protected:
  static ControlPlane::Options Options() {
    ControlPlane::Options options;
    options.max_running_of_one = 1;
    return options;
  }
  OneJobOfEachTest() : ControlPlaneTest(Options()) {}
  uint64_t SubmitAs(const std::string& owner) {
    JobTable::Submission submission = SubmissionOf(SmallJob("job", 1, 1));
    submission.owner = owner;
    const auto job = control_.Submit(std::move(submission), Now());
    EXPECT_TRUE(job.ok()) << job.status();
    PlanAll();
    return job->id();
  }
};

TEST_F(OneJobOfEachTest, TheNextOneOfTheSameUserWaitsForItsEnd) {
  for (const char* name : {"w-1", "w-2", "w-3", "s-1"}) Join(name);
  const uint64_t first = SubmitAs("ann");
  const uint64_t second = SubmitAs("ann");
  const uint64_t others = SubmitAs("bob");
  EXPECT_EQ(StateOf(second),
            "QUEUED: waiting for the end of a job of \"ann\": 1 of them run (job 1 (job)), the "
            "limit is 1");
  EXPECT_EQ(Job(others).state(), v1::STARTING);
  AllReady(first);
  RunToTheEnd(first);
  EXPECT_EQ(Job(second).state(), v1::STARTING);
  // Who has no name has no limit.
  SubmitAs("");
  EXPECT_EQ(Job(SubmitAs("")).reason().substr(0, 26), "waiting for 1 of 1 worker,");
}

TEST_F(SeveralJobsTest, AJobWithoutItsWorkersHoldsNone) {
  const uint64_t first = Submit("first", 3, 1);
  const uint64_t second = Submit("second", 3, 1);
  EXPECT_EQ(Job(first).state(), v1::STARTING);
  EXPECT_EQ(StateOf(second), "QUEUED: waiting for 2 of 3 workers, busy with job 1 (first)");
  EXPECT_EQ(PhaseOf("w-4", second), "none");
  AllReady(first);
  RunToTheEnd(first);
  EXPECT_EQ(StateOf(second), "STARTING: on workers w-1, w-2, w-3 and servers s-2");
}

TEST_F(SeveralJobsTest, PriorityDecidesWhoIsNextAndStopsNobody) {
  const uint64_t first = Submit("first", 4, 1);
  const uint64_t low = SubmitAt(-1, 3);
  const uint64_t middle = SubmitAt(0, 3);
  const uint64_t high = SubmitAt(5, 2);
  EXPECT_EQ(Job(first).state(), v1::STARTING);
  CancelJob(first, "");
  EXPECT_EQ(Job(high).state(), v1::STARTING);
  EXPECT_EQ(StateOf(middle), "QUEUED: waiting for 1 of 3 workers, busy with job 4 (p5)");
  EXPECT_EQ(Job(low).state(), v1::QUEUED);
  CancelJob(high, "");
  EXPECT_EQ(Job(middle).state(), v1::STARTING);
}

TEST_F(SeveralJobsTest, ALostServerFailsAllItsJobsALostWorkerIsMissedByItsOwn) {
  const uint64_t a = Submit("a", 1, 2);
  const uint64_t b = Submit("b", 1, 2);
  const uint64_t c = Submit("c", 1, 1);
  for (const uint64_t job : {a, b, c}) AllReady(job);
  ASSERT_EQ(Job(c).server(0), "s-1");
  Kill("w-2");
  Pass(6);
  EXPECT_EQ(LossOf(b), "worker w-2 lost: no sign of life for 5.0 s (lease 5 s)");
  EXPECT_EQ(Job(a).state(), v1::RUNNING);
  EXPECT_EQ(Job(c).state(), v1::RUNNING);
  Kill("s-1");
  Pass(6);
  EXPECT_EQ(Job(a).state(), v1::FAILED);
  EXPECT_EQ(Job(c).state(), v1::FAILED);
}

TEST_F(SeveralJobsTest, ABrokenLinkFailsTheJobOfTheLink) {
  const uint64_t a = Submit("a", 2, 1);
  const uint64_t b = Submit("b", 2, 1);
  AllReady(a);
  AllReady(b);
  ASSERT_TRUE(Report("w-3", b, {Failed(kUnavailable, "connection reset")}).ok());
  Pass(6);
  EXPECT_EQ(StateOf(b), "FAILED: worker w-3 failed: UNAVAILABLE: connection reset");
  EXPECT_EQ(Job(a).state(), v1::RUNNING);
}

TEST_F(SeveralJobsTest, TheCoordinatorServesTheDataOfSeveralJobs) {
  v1::JobSpec spec = SmallJob("served", 1, 1);
  spec.mutable_data()->set_served(true);
  const uint64_t a = SubmitSpec(spec);
  const uint64_t b = SubmitSpec(spec);
  EXPECT_EQ(control_.ServedJobs().size(), 2u);
  control_.OnServedData(a, 1, absl::NotFoundError("no such file"), Now());
  EXPECT_EQ(Job(a).state(), v1::FAILED);
  ASSERT_EQ(control_.ServedJobs().size(), 1u);
  EXPECT_EQ(control_.ServedJobs()[0]->plan().job(), b);
}

TEST_F(SeveralJobsTest, TheMemoryOfAJobIsCountedAndReleased) {
  const uint64_t job = Submit("job", 1, 2);
  EXPECT_EQ(Job(job).server_memory_bytes(), 12u * 67);
  AllReady(job);
  RunToTheEnd(job);
  EXPECT_EQ(Job(job).server_memory_bytes(), 4u * 67);
  const uint64_t cancelled = Submit("cancelled", 1, 2);
  CancelJob(cancelled, "");
  EXPECT_EQ(Job(cancelled).server_memory_bytes(), 0u);
  Leave("s-2", "");
  EXPECT_EQ(Job(job).server_memory_bytes(), 0u);
}

// Checkpoints are written one at a time, and the one that is being written may be of a job that has
// ended meanwhile.
TEST_F(SeveralJobsTest, TheNextCheckpointIsNotForgottenWhenAJobEnds) {
  std::vector<uint64_t> jobs;
  for (const char* name : {"a", "b"}) {
    v1::JobSpec spec = SmallJob(name, 1, 1);
    spec.mutable_checkpoint()->set_every_steps(2);
    jobs.push_back(SubmitSpec(spec));
    AllReady(jobs.back());
    v1::JobReport report;
    report.mutable_snapshot()->set_step(2);
    report.mutable_snapshot()->set_updates(2);
    ASSERT_TRUE(Report(Job(jobs.back()).server(0), jobs.back(), {report}).ok());
  }
  const auto first = control_.TakeCheckpoint();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->assignment->plan().job(), jobs[0]);
  CancelJob(jobs[0], "");
  control_.TakeChanges();
  control_.OnCheckpoint(*first, absl::NotFoundError("no such job"), Now());
  EXPECT_TRUE(control_.TakeChanges().checkpoints);
  const auto second = control_.TakeCheckpoint();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->assignment->plan().job(), jobs[1]);
}

// A job of 6 steps that asks for checkpoints and has done all of them but the writing.
class LastCheckpointTest : public ControlPlaneTest {
 protected:
  uint64_t Done() {
    for (const char* name : {"w-1", "w-2", "s-1"}) Join(name);
    v1::JobSpec spec = SmallJob("job", 2, 1);
    spec.mutable_checkpoint()->set_every_steps(4);
    const uint64_t job = SubmitSpec(spec);
    AllReady(job);
    RunToTheEnd(job);
    Copied(job, 4);
    return job;
  }

  void Copied(uint64_t job, uint64_t step) {
    v1::JobReport report;
    report.mutable_snapshot()->set_step(step);
    report.mutable_snapshot()->set_updates(step);
    EXPECT_TRUE(Report("s-1", job, {report}).ok());
  }

  // What the disk has after the checkpoint of `step`.
  static std::vector<v1::CheckpointSummary> Files(const std::vector<uint64_t>& steps) {
    std::vector<v1::CheckpointSummary> all;
    for (const uint64_t step : steps) all.emplace_back().set_step(step);
    return all;
  }

  void Write(uint64_t step, const absl::StatusOr<std::vector<v1::CheckpointSummary>>& all) {
    const auto taken = control_.TakeCheckpoint();
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->step, step);
    control_.OnCheckpoint(*taken, all, Now());
    PlanAll();
  }

  std::vector<uint64_t> Wanted(uint64_t job) {
    const auto steps = AssignmentOf("s-1", job)->snapshot_step();
    return {steps.begin(), steps.end()};
  }

  std::string LastMessage(uint64_t job) {
    std::string message;
    const auto found = control_.jobs().EventsAfter(job, 0, 1000);
    for (const v1::JobEvent& event : found->events) {
      if (!event.message().empty()) message = event.message();
    }
    return message;
  }
};

TEST_F(LastCheckpointTest, AJobHasSucceededWhenThatOfItsLastStepIsWritten) {
  const uint64_t job = Done();
  EXPECT_EQ(StateOf(job), "RUNNING: all workers and servers are ready");
  EXPECT_EQ(Job(job).progress().steps_done(), 6u);
  EXPECT_EQ(PhaseOf("w-1", job), "none");
  EXPECT_EQ(PhaseOf("s-1", job), "RUN");
  EXPECT_EQ(Wanted(job), (std::vector<uint64_t>{4, 6}));
  Copied(job, 6);
  Write(4, Files({4}));
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Write(6, Files({4, 6}));
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
  EXPECT_EQ(PhaseOf("s-1", job), "HOLD");
  EXPECT_TRUE(Job(job).weights_available());
  EXPECT_EQ(Job(job).checkpoint_size(), 2);
  EXPECT_EQ(LastMessage(job), "");
}

TEST_F(LastCheckpointTest, OneThatFailsIsSaidAndFailsNoJob) {
  const uint64_t job = Done();
  Copied(job, 6);
  Write(4, absl::ResourceExhaustedError("the disk is full"));
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Write(6, absl::ResourceExhaustedError("the disk is full"));
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
  EXPECT_EQ(LastMessage(job), "checkpoint of step 6 failed: the disk is full");
  EXPECT_TRUE(Job(job).weights_available());
}

TEST_F(LastCheckpointTest, AServerThatSaysNothingIsNotAwaitedForEver) {
  const uint64_t job = Done();
  Write(4, Files({4}));
  Pass(14);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Pass(2);
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
  EXPECT_EQ(LastMessage(job),
            "no checkpoint of the last step, 6: not all servers have copied it within 15s");
}

TEST_F(LastCheckpointTest, WhatIsBeingWrittenIsAwaited) {
  const uint64_t job = Done();
  Copied(job, 6);
  Pass(300);
  Write(4, Files({4}));
  const auto taken = control_.TakeCheckpoint();
  ASSERT_TRUE(taken.has_value());
  // From the end of the one before.
  Pass(599);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  // Whoever writes it has deadlines of its own.
  Pass(2);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  control_.OnCheckpoint(*taken, Files({4, 6}), Now());
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
  EXPECT_EQ(Job(job).checkpoint_size(), 2);
}

TEST_F(LastCheckpointTest, AWriterThatDoesNotBeginIsNotAwaitedForEver) {
  const uint64_t job = Done();
  Copied(job, 6);
  Pass(599);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Pass(2);
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
  EXPECT_EQ(LastMessage(job), "no checkpoint of the last step, 6: it was not written within 10m");
}

TEST_F(LastCheckpointTest, WithoutAServerTheLastStepsAreDoneAgainFromTheOneBefore) {
  const uint64_t job = Done();
  Write(4, Files({4}));
  resume_ = {4, 4};
  Join("s-2");
  Leave("s-1", "");
  EXPECT_EQ(StateOf(job), "STARTING: on workers w-1, w-2 and servers s-2, again from step 4");
}

TEST_F(LastCheckpointTest, ItsWorkersAreFreeMeanwhile) {
  const uint64_t job = Done();
  const uint64_t next = Submit("next");
  EXPECT_EQ(PhaseOf("w-1", next), "PREPARE");
  AllReady(next);
  // Neither what they say of the job nor their end matters to it.
  EXPECT_EQ(Report("w-2", job, {Failed(kUnavailable, "link lost")}).code(),
            absl::StatusCode::kAborted);
  Leave("w-2", "");
  EXPECT_EQ(Job(next).state(), v1::QUEUED);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
  Copied(job, 6);
  Write(4, Files({4}));
  Write(6, Files({4, 6}));
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
}

TEST_F(LastCheckpointTest, AServerThatIsLostTakesTheWeightsWithItAndNotTheSuccess) {
  const uint64_t job = Done();
  Leave("s-1", "");
  EXPECT_EQ(StateOf(job), "SUCCEEDED: all steps done");
  EXPECT_FALSE(Job(job).weights_available());
  EXPECT_EQ(LastMessage(job), "no checkpoint of the last step, 6: server s-1 left");
}

TEST_F(LastCheckpointTest, StepsThatWereSkippedCountAlsoWhenTheyAreToldLate) {
  const uint64_t job = Done();
  v1::JobReport report;
  report.mutable_skipped_step()->set_step(5);
  report.mutable_skipped_step()->set_why("inf");
  EXPECT_TRUE(Report("s-1", job, {report}).ok());
  EXPECT_EQ(Job(job).skipped_steps(), 1u);
  EXPECT_EQ(Job(job).state(), v1::RUNNING);
}

TEST_F(LastCheckpointTest, ItCanBeCancelled) {
  const uint64_t job = Done();
  EXPECT_EQ(CancelJob(job, "enough"), "CANCELLED: enough");
  EXPECT_EQ(PhaseOf("s-1", job), "none");
}

// Workers that do not say that they multiply BF16 by themselves.
TEST_F(ControlPlaneTest, AJobInBf16GoesOnOnWorkersOfTheKindOfItsCheckpoint) {
  for (const char* name : {"w-1", "w-2", "s-1"}) Join(name);
  v1::JobSpec spec = SmallJob("job", 2, 1);
  spec.set_precision(v1::BF16);
  spec.mutable_checkpoint()->set_every_steps(2);
  for (const bool native : {true, false}) {
    const auto submitted = control_.Submit(SubmissionOf(spec), Now());
    ASSERT_TRUE(submitted.ok());
    const auto to_plan = control_.TakeToPlan();
    ASSERT_NE(to_plan, nullptr);
    control_.OnPlanned(to_plan, ReportOn(*to_plan), Now(),
                       ResumePoint{1, 1, native ? "cpu (native BF16)" : "cpu"});
    if (!native) {
      AllReady(submitted->id());
      v1::JobReport report;
      report.mutable_snapshot()->set_step(2);
      EXPECT_TRUE(Report("s-1", submitted->id(), {report}).ok());
      EXPECT_EQ(control_.TakeCheckpoint()->worker_kind, "cpu");
      continue;
    }
    EXPECT_EQ(StateOf(submitted->id()),
              "FAILED: resume_from: kind of workers: found cpu, expected cpu (native BF16) as of "
              "the checkpoint; their sums differ");
  }
}

TEST_F(SeveralJobsTest, OnlyAJobThatHasEndedIsDeletedWithItsWeights) {
  const uint64_t job = Submit("job", 1, 1);
  AllReady(job);
  EXPECT_EQ(DeleteJob(job).message(),
            "job 1 (job) is RUNNING, expected one that has ended; cancel it first");
  RunToTheEnd(job);
  EXPECT_EQ(PhaseOf("s-1", job), "HOLD");
  EXPECT_TRUE(DeleteJob(job).ok());
  EXPECT_EQ(PhaseOf("s-1", job), "none");
  EXPECT_EQ(control_.jobs().Get(job), nullptr);
  EXPECT_EQ(DeleteJob(job).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Submit("next", 1, 1), job + 1);
}

TEST_F(SeveralJobsTest, LinesAreKeptByJobAlsoWhenItIsOver) {
  const uint64_t job = Submit("job", 1, 1);
  v1::JobReport report;
  v1::LogReport::Line* line = report.mutable_log()->add_line();
  line->set_time_us(1'500'000);
  line->set_level("warning");
  line->set_text("link lost job=1");
  // Of no generation.
  EXPECT_TRUE(Report("w-1", job, {report}, 0).ok());
  // Of a worker that never had a part in it: nobody's lines are pushed out.
  EXPECT_TRUE(Report("w-4", job, {report}).ok());
  CancelJob(job, "");
  line->set_level("loud");
  EXPECT_TRUE(Report("s-1", job, {report}).ok());
  const LogStore::Lines kept = control_.logs().After(job, 0, "", 10);
  ASSERT_EQ(kept.lines.size(), 2u);
  EXPECT_EQ(kept.lines[0].daemon(), "worker w-1");
  EXPECT_EQ(kept.lines[0].level(), "warning");
  EXPECT_EQ(kept.lines[0].text(), "link lost job=1");
  EXPECT_EQ(kept.lines[0].time().seconds(), 1);
  EXPECT_EQ(kept.lines[0].time().nanos(), 500'000'000);
  EXPECT_EQ(kept.lines[1].level(), "info");
  // Of a job that is not known, or forgotten: nothing, and no error that would be a line again.
  EXPECT_TRUE(Report("w-1", job + 7, {report}, 0).ok());
  ASSERT_TRUE(DeleteJob(job).ok());
  EXPECT_TRUE(Report("w-1", job, {report}, 0).ok());
  EXPECT_EQ(control_.logs().size(), 0u);
}

TEST_F(SeveralJobsTest, WhatTheClusterNeverCanIsNotAdmitted) {
  const JobTable::Submission five = SubmissionOf(SmallJob("job", 5, 3));
  EXPECT_EQ(control_.CheckAdmission(five, false).message(),
            "needs 5 workers, cluster has 4 (w-1, w-2, w-3, w-4)\n"
            "needs 3 servers, cluster has 2 (s-1, s-2)");
  EXPECT_TRUE(control_.CheckAdmission(five, true).ok());
  Submit("running", 4, 2);
  // That others run is no reason.
  EXPECT_TRUE(control_.CheckAdmission(SubmissionOf(SmallJob("job", 4, 2)), false).ok());
}

TEST_F(SeveralJobsTest, AJobInBf16IsNotAdmittedOnAMixtureOfWorkers) {
  v1::RegisterRequest native = Registration(Daemon(v1::WORKER, "w-2"));
  native.add_native_precision(v1::FP32);
  native.add_native_precision(v1::BF16);
  ASSERT_TRUE(control_.Register(native, Now()).ok());
  v1::JobSpec spec = SmallJob("job", 4, 1);
  EXPECT_TRUE(control_.CheckAdmission(SubmissionOf(spec), false).ok());
  spec.set_precision(v1::BF16);
  EXPECT_EQ(control_.CheckAdmission(SubmissionOf(spec), false).message(),
            "needs 4 workers of one kind, cluster has 1 x cpu (native BF16), 3 x cpu");
  spec.mutable_resources()->set_workers(3);
  EXPECT_TRUE(control_.CheckAdmission(SubmissionOf(spec), false).ok());
}

TEST_F(SeveralJobsTest, WorkersOfAJobAreOfTheBackendThatItAsksForAndOfOneKind) {
  for (const char* name : {"w-2", "w-4"}) {
    v1::RegisterRequest gpu = Registration(Daemon(v1::WORKER, name));
    gpu.set_backend("cuda");
    gpu.mutable_device()->set_name("NVIDIA H200");
    gpu.mutable_device()->set_compute_capability("9.0");
    ASSERT_TRUE(control_.Register(gpu, Now()).ok());
  }
  v1::JobSpec spec = SmallJob("job", 3, 1);
  EXPECT_EQ(control_.CheckAdmission(SubmissionOf(spec), false).message(),
            "needs 3 workers of one kind, cluster has 2 x cuda (NVIDIA H200), 2 x cpu");
  EXPECT_EQ(control_.ViewFor(SubmissionOf(SmallJob("job", 2, 1))).facts.worker(1).name(), "w-4");
  spec.mutable_resources()->set_backend("cpu");
  EXPECT_EQ(control_.CheckAdmission(SubmissionOf(spec), false).message(),
            "needs 3 cpu workers, cluster has 2 x cuda (NVIDIA H200), 2 x cpu");
  spec.mutable_resources()->set_workers(2);
  EXPECT_TRUE(control_.CheckAdmission(SubmissionOf(spec), false).ok());
  EXPECT_EQ(control_.ViewFor(SubmissionOf(spec)).facts.worker(1).name(), "w-3");
  const v1::Cluster cluster = control_.DescribeCluster(Now());
  for (const v1::DaemonStatus& daemon : cluster.daemon()) {
    EXPECT_EQ(daemon.device().compute_capability(), daemon.backend() == "cuda" ? "9.0" : "");
  }
}

TEST_F(ControlPlaneTest, AJobWaitsForTheMemoryOfRunningOnes) {
  v1::RegisterRequest server = Registration(Daemon(v1::SERVER, "s-1"));
  server.set_memory_bytes(12 * 67 + 4 * 67);
  ASSERT_TRUE(control_.Register(server, Now()).ok());
  alive_["s-1"] = server.daemon();
  Join("w-1");
  Join("w-2");
  const uint64_t first = Submit("first", 1, 1);
  const uint64_t second = Submit("second", 1, 1);
  EXPECT_EQ(StateOf(second),
            "QUEUED: waiting for memory of 1 of 1 server: needs 804 bytes on each; s-1 has 268 of "
            "1072 left, the rest is of running jobs");
  AllReady(first);
  RunToTheEnd(first);
  EXPECT_EQ(Job(second).state(), v1::STARTING);
  EXPECT_TRUE(Job(first).weights_available());
  v1::JobSpec wide = SmallJob("wide", 1, 1);
  wide.mutable_model()->mutable_block(0)->mutable_layer(1)->mutable_linear()->set_out_features(12);
  EXPECT_EQ(control_.CheckAdmission(SubmissionOf(wide), true).message(),
            "server s-1 would hold 1188 bytes of weights and optimizer state, its limit is 1072; "
            "ask for more servers (resources.servers) or raise --memory_limit");
}

}  // namespace
}  // namespace sangam
