// A control plane that is written down at any event of a job's life and taken up by another one
// goes on as the first would have.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/plan/forecast.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/admin_service.pb.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/assignment_board.h"
#include "server/core/control_plane.h"
#include "server/core/job_table.h"
#include "server/core/log_store.h"
#include "server/core/saved_records.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::Daemon;
using testing::Evaluated;
using testing::Failed;
using testing::Finished;
using ::testing::HasSubstr;
using testing::LayoutOf;
using testing::Ready;
using testing::Registration;
using testing::SmallJob;
using testing::Step;

// A coordinator that can be killed, and its cluster, which lives on.
class World {
 public:
  explicit World(ControlPlane::Options options = {}) : options_(std::move(options)) {
    options_.keep_records = true;
    Begin();
  }

  ControlPlane::Moment Now() const {
    return {absl::Seconds(10) + elapsed_, absl::FromUnixSeconds(1'000'000) + elapsed_};
  }

  // The process is killed and started again; nothing but the records is left.
  void Restart() {
    Save();
    Begin();
    for (const auto& [name, daemon] : alive_) {
      EXPECT_TRUE(control_->Renew(daemon, Now()).ok()) << name;
    }
    Settle();
  }

  // What the coordinator does between two calls.
  void Settle() {
    while (const auto job = control_->TakeToPlan()) {
      const v1::PlanReport report =
          MakeForecasts(job->spec, job->layout, job->view.facts, job->view.measured);
      control_->OnPlanned(job, report, Now(), job->again ? resume_ : ResumePoint());
    }
    Save();
  }

  void Pass(absl::Duration time, bool heartbeats = true) {
    for (absl::Duration passed; passed < time; passed += absl::Milliseconds(500)) {
      elapsed_ += absl::Milliseconds(500);
      if (heartbeats) {
        for (const auto& [name, daemon] : alive_) control_->Renew(daemon, Now()).IgnoreError();
      }
      control_->Advance(Now());
      Settle();
    }
  }

  void Join(const std::string& name) {
    const v1::DaemonIdentity daemon = Daemon(name[0] == 's' ? v1::SERVER : v1::WORKER, name, 1);
    ASSERT_TRUE(control_->Register(Registration(daemon), Now()).ok());
    alive_[name] = daemon;
    Settle();
  }
  void Kill(const std::string& name) { killed_[name] = alive_.extract(name).mapped(); }
  // It was only silent.
  void Revive(const std::string& name) {
    alive_[name] = killed_.at(name);
    EXPECT_TRUE(control_->Renew(alive_[name], Now()).ok());
  }
  void Leave(const std::string& name) {
    v1::LeaveRequest request;
    *request.mutable_daemon() = alive_.at(name);
    request.set_reason("SIGTERM");
    control_->Leave(request, Now());
    alive_.erase(name);
    Settle();
  }
  // Jobs that start again go on there.
  void SetResume(ResumePoint resume) { resume_ = resume; }

  absl::StatusOr<v1::Job> Submit(const v1::JobSpec& spec, const std::string& request_id = "") {
    auto job = control_->Submit({spec, LayoutOf(spec), request_id}, Now());
    Settle();
    return job;
  }

  absl::Status Report(const std::string& name, uint64_t job, const v1::JobReport& report) {
    v1::ReportRequest request;
    *request.mutable_daemon() = alive_.at(name);
    request.set_job(job);
    request.set_generation(Job(job).generation());
    *request.add_report() = report;
    const absl::Status status = control_->Report(request, Now());
    Settle();
    return status;
  }

  AssignmentBoard::Entry Board(const std::string& name) {
    const auto entry = control_->AssignmentsOf(alive_.at(name));
    EXPECT_TRUE(entry.ok()) << entry.status();
    return entry.ok() ? *entry : AssignmentBoard::Entry();
  }
  // Everything that the daemons hold, as text.
  std::string Boards() {
    std::string text;
    for (const auto& [name, daemon] : alive_) {
      for (const auto& [job, assignment] : Board(name).assignments) {
        absl::StrAppend(&text, name, " ", job, " ", assignment->SerializeAsString(), "\n");
      }
    }
    return text;
  }
  // Everything that is known of the jobs, as text.
  std::string Jobs() {
    std::string text;
    for (const uint64_t id : control_->jobs().Ids()) {
      absl::StrAppend(&text, control_->jobs().Get(id)->DebugString());
      const auto found = control_->jobs().EventsAfter(id, 0, 1000);
      for (const v1::JobEvent& event : found->events) {
        absl::StrAppend(&text, event.DebugString());
      }
    }
    return text;
  }
  const v1::Job& Job(uint64_t id) { return *control_->jobs().Get(id); }
  std::string StateOf(uint64_t id) {
    return absl::StrCat(v1::JobState_Name(Job(id).state()), ": ", Job(id).reason());
  }

  ControlPlane& control() { return *control_; }
  const SavedRecords& records() const { return records_; }
  SavedRecords* mutable_records() { return &records_; }
  void Begin(const CheckpointsByJob* found = nullptr) {
    control_ = std::make_unique<ControlPlane>(options_);
    const absl::Status status = control_->Restore(records_, Now(), found);
    ASSERT_TRUE(status.ok()) << status;
    Save();
  }

 private:
  void Save() {
    for (auto& [key, value] : control_->TakeChanges().records) {
      if (value.has_value()) {
        records_[key] = *value;
      } else {
        records_.erase(key);
      }
    }
  }

  ControlPlane::Options options_;
  std::unique_ptr<ControlPlane> control_;
  SavedRecords records_;
  ResumePoint resume_;
  std::map<std::string, v1::DaemonIdentity> alive_;
  std::map<std::string, v1::DaemonIdentity> killed_;
  absl::Duration elapsed_;
};

using Event = std::function<void(World*)>;

Event Reported(const std::string& name, const v1::JobReport& report) {
  return [name, report](World* world) {
    const absl::Status status = world->Report(name, 1, report);
    EXPECT_TRUE(status.ok()) << status;
  };
}

v1::WorkerPlan WorkerOf(const std::string& name) {
  const v1::Plan plan = testing::PlanOf(SmallJob("job", 2, 1));
  return plan.worker(name == "w-1" ? 0 : 1);
}

// The life of a job on two workers and a server, with a second one that waits for it. The first
// worker runs ahead.
std::vector<Event> Life() {
  std::vector<Event> events;
  for (const std::string name : {"w-1", "s-1", "w-2"}) {
    events.push_back([name](World* world) { world->Join(name); });
  }
  for (const std::string name : {"job", "next"}) {
    events.push_back([name](World* world) {
      EXPECT_TRUE(world->Submit(SmallJob(name, 2, 1), absl::StrCat("request-", name)).ok());
    });
  }
  for (const std::string name : {"w-1", "s-1", "w-2"}) events.push_back(Reported(name, Ready()));
  for (uint64_t step = 0; step < testing::kStepsTotal; ++step) {
    events.push_back(Reported("w-1", Step(WorkerOf("w-1"), step)));
    if (step >= 2) events.push_back(Reported("w-2", Step(WorkerOf("w-2"), step - 2)));
    events.push_back([](World* world) { world->Pass(absl::Milliseconds(500)); });
  }
  events.push_back(Reported("w-1", Evaluated(WorkerOf("w-1"), testing::kStepsTotal)));
  events.push_back(Reported("w-1", Finished()));
  for (const uint64_t step : {testing::kStepsTotal - 2, testing::kStepsTotal - 1}) {
    events.push_back(Reported("w-2", Step(WorkerOf("w-2"), step)));
  }
  events.push_back(Reported("w-2", Evaluated(WorkerOf("w-2"), testing::kStepsTotal)));
  events.push_back(Reported("w-2", Finished()));
  return events;
}

// A job whose second worker says goodbye when four steps are done, which finds no other at first,
// goes on at step 2, and whose third one loses its device.
std::vector<Event> LifeWithLosses() {
  std::vector<Event> events;
  for (const std::string name : {"w-1", "s-1", "w-2"}) {
    events.push_back([name](World* world) { world->Join(name); });
  }
  events.push_back([](World* world) {
    world->SetResume({2, 2});
    EXPECT_TRUE(world->Submit(SmallJob("job", 2, 1)).ok());
  });
  const auto train = [&events](const std::string& second, uint64_t begin, uint64_t end) {
    for (const std::string& name : {std::string("w-1"), std::string("s-1"), second}) {
      events.push_back(Reported(name, Ready()));
    }
    for (uint64_t step = begin; step < end; ++step) {
      events.push_back(Reported("w-1", Step(WorkerOf("w-1"), step)));
      events.push_back(Reported(second, Step(WorkerOf("w-2"), step)));
      events.push_back([](World* world) { world->Pass(absl::Milliseconds(500)); });
    }
  };
  train("w-2", 0, 4);
  events.push_back([](World* world) { world->Leave("w-2"); });
  events.push_back([](World* world) { world->Join("w-3"); });
  train("w-3", 2, 5);
  v1::JobReport lost = Failed(13, "cuda: gone");
  lost.mutable_failed()->set_daemon_at_fault(true);
  events.push_back(Reported("w-3", lost));
  events.push_back([](World* world) { world->Pass(absl::Milliseconds(500)); });
  events.push_back([](World* world) { world->Join("w-4"); });
  train("w-4", 2, testing::kStepsTotal);
  for (const std::string name : {"w-1", "w-4"}) {
    const v1::WorkerPlan worker = WorkerOf(name == "w-1" ? name : "w-2");
    events.push_back(Reported(name, Evaluated(worker, testing::kStepsTotal)));
    events.push_back(Reported(name, Finished()));
  }
  return events;
}

void ExpectARestartAtAnyEventChangesNothing(const std::vector<Event>& life) {
  World undisturbed;
  for (const Event& event : life) event(&undisturbed);
  ASSERT_EQ(undisturbed.StateOf(1), "SUCCEEDED: all steps done");
  for (size_t restart = 0; restart <= life.size(); ++restart) {
    World world;
    for (size_t i = 0; i <= life.size(); ++i) {
      if (i == restart) {
        const std::string jobs = world.Jobs();
        const std::string boards = world.Boards();
        world.Restart();
        EXPECT_EQ(world.Jobs(), jobs) << "restart before event " << restart;
        EXPECT_EQ(world.Boards(), boards) << "restart before event " << restart;
      }
      if (i < life.size()) life[i](&world);
    }
    EXPECT_EQ(world.Jobs(), undisturbed.Jobs()) << "restart before event " << restart;
    EXPECT_EQ(world.Boards(), undisturbed.Boards()) << "restart before event " << restart;
  }
}

TEST(ControlPlaneRestoreTest, ARestartAtAnyEventChangesNothing) {
  ExpectARestartAtAnyEventChangesNothing(Life());
}

TEST(ControlPlaneRestoreTest, NorAtAnyEventOfALifeWithLosses) {
  ExpectARestartAtAnyEventChangesNothing(LifeWithLosses());
}

TEST(ControlPlaneRestoreTest, ARestartBeforeEveryEventChangesNothing) {
  for (const std::vector<Event>& life : {Life(), LifeWithLosses()}) {
    World undisturbed;
    World world;
    for (const Event& event : life) {
      event(&undisturbed);
      world.Restart();
      event(&world);
    }
    EXPECT_EQ(world.Jobs(), undisturbed.Jobs());
    EXPECT_EQ(world.Boards(), undisturbed.Boards());
  }
}

class RunningWorld : public World {
 public:
  explicit RunningWorld(ControlPlane::Options options = {}) : World(std::move(options)) {
    const std::vector<Event> life = Life();
    for (size_t i = 0; i < 10; ++i) life[i](this);
    EXPECT_EQ(Job(1).state(), v1::RUNNING);
  }
};

v1::JobReport Skipped(uint64_t step) {
  v1::JobReport report;
  report.mutable_skipped_step()->set_step(step);
  report.mutable_skipped_step()->set_why("worker w-1");
  return report;
}

TEST(ControlPlaneRestoreTest, ASkippedStepIsCountedOnceOverARestart) {
  RunningWorld world;
  ASSERT_TRUE(world.Report("s-1", 1, Skipped(1)).ok());
  const std::string jobs = world.Jobs();
  world.Restart();
  // Its answer was lost with the first coordinator.
  ASSERT_TRUE(world.Report("s-1", 1, Skipped(1)).ok());
  EXPECT_EQ(world.Job(1).skipped_steps(), 1u);
  EXPECT_EQ(world.Jobs(), jobs);
}

TEST(ControlPlaneRestoreTest, StepsThatAreSkippedInARowAreCountedOverARestart) {
  v1::JobSpec spec = SmallJob("long", 2, 1);
  spec.set_epochs(20);
  World world;
  for (const std::string name : {"w-1", "s-1", "w-2"}) world.Join(name);
  ASSERT_TRUE(world.Submit(spec).ok());
  for (const std::string name : {"w-1", "s-1", "w-2"}) {
    ASSERT_TRUE(world.Report(name, 1, Ready()).ok());
  }
  for (uint64_t step = 0; step < 20; ++step) {
    ASSERT_EQ(world.Job(1).state(), v1::RUNNING);
    if (step % 7 == 6) world.Restart();
    ASSERT_TRUE(world.Report("s-1", 1, Skipped(step)).ok());
  }
  EXPECT_THAT(world.StateOf(1), HasSubstr("FAILED: the last 20 steps were skipped, up to step 19"));
}

// The server that counts votes tells of it by another way than the workers tell of their end.
TEST(ControlPlaneRestoreTest, AStepSkippedLastIsCountedWhenTheJobHasEnded) {
  World world;
  for (const Event& event : Life()) event(&world);
  ASSERT_EQ(world.Job(1).state(), v1::SUCCEEDED);
  const uint64_t last = testing::kStepsTotal - 1;
  EXPECT_TRUE(world.Report("s-1", 1, Skipped(last)).ok());
  EXPECT_EQ(world.Job(1).skipped_steps(), 1u);
  EXPECT_THAT(world.Jobs(), HasSubstr("step 5 was skipped: the gradient is not finite"));
  world.Restart();
  EXPECT_TRUE(world.Report("s-1", 1, Skipped(last)).ok());
  EXPECT_TRUE(world.Report("s-1", 1, Skipped(last + 1)).ok());
  EXPECT_EQ(world.Job(1).skipped_steps(), 1u);
  EXPECT_EQ(world.Report("w-1", 1, Skipped(last)).code(), absl::StatusCode::kAborted);
}

TEST(ControlPlaneRestoreTest, ALossThatRunsAwayIsSeenOverARestartAndSaidOnce) {
  v1::JobSpec spec = SmallJob("job", 1, 1);
  spec.mutable_loss_alert()->set_factor(2);
  spec.mutable_loss_alert()->set_window(30);
  v1::WorkerPlan worker = testing::PlanOf(spec).worker(0);
  World world;
  for (const std::string name : {"w-1", "s-1"}) world.Join(name);
  ASSERT_TRUE(world.Submit(spec).ok());
  for (const std::string name : {"w-1", "s-1"}) ASSERT_TRUE(world.Report(name, 1, Ready()).ok());
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(world.Report("w-1", 1, Step(worker, step)).ok());
  }
  const auto alerts = [&world] {
    const std::string jobs = world.Jobs();
    size_t count = 0;
    for (size_t at = jobs.find("times the mean"); at != std::string::npos;
         at = jobs.find("times the mean", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(alerts(), 0u);
  world.Restart();
  ASSERT_TRUE(world.Report("w-1", 1, Step(worker, 3, 1e6)).ok());
  EXPECT_EQ(alerts(), 1u);
  world.Restart();
  ASSERT_TRUE(world.Report("w-1", 1, Step(worker, 4, 1e9)).ok());
  EXPECT_EQ(alerts(), 1u);
}

TEST(ControlPlaneRestoreTest, TheLogGoesOnBehindTheOldNumbers) {
  RunningWorld world;
  for (int i = 0; i < 5; ++i) world.control().KeepLine(1, false, "before", world.Now());
  const uint64_t seen = world.control().logs().After(1, 0, "", 100).revision;
  world.Restart();
  world.control().KeepLine(1, false, "after", world.Now());
  const LogStore::Lines found = world.control().logs().After(1, seen, "", 100);
  ASSERT_EQ(found.lines.size(), 1u);
  EXPECT_GT(found.lines[0].revision(), seen);
  EXPECT_EQ(found.lines[0].dropped(), 0u);
}

// A job that runs and asks for checkpoints; step 2 can be written down.
class CheckpointWorld : public World {
 public:
  explicit CheckpointWorld(ControlPlane::Options options = {}) : World(std::move(options)) {
    v1::JobSpec spec = SmallJob("job", 2, 1);
    spec.mutable_checkpoint()->set_every_steps(2);
    for (const std::string name : {"w-1", "s-1", "w-2"}) Join(name);
    EXPECT_TRUE(Submit(spec).ok());
    for (const std::string name : {"w-1", "s-1", "w-2"}) {
      EXPECT_TRUE(Report(name, 1, Ready()).ok());
    }
    v1::JobReport report;
    report.mutable_snapshot()->set_step(2);
    report.mutable_snapshot()->set_updates(2);
    EXPECT_TRUE(Report("s-1", 1, report).ok());
  }
  void Cancel(const std::string& job) {
    v1::CancelJobRequest request;
    request.set_job(job);
    EXPECT_TRUE(control().Cancel(request, Now()).ok());
  }
  absl::Status Delete(const std::string& job) {
    v1::DeleteJobRequest request;
    request.set_job(job);
    return control().Delete(request, Now());
  }
};

TEST(ControlPlaneRestoreTest, ACheckpointThatWasCompleteButNotNotedIsFound) {
  CheckpointWorld world;
  ASSERT_TRUE(world.control().TakeCheckpoint().has_value());
  world.Restart();
  v1::CheckpointSummary summary;
  summary.set_step(2);
  const uint64_t seen = world.control().jobs().EventsAfter(1, 0, 1000)->events.back().revision();
  world.control().OnCheckpointsFound(1, {summary}, world.Now());
  ASSERT_EQ(world.Job(1).checkpoint_size(), 1);
  EXPECT_EQ(world.Job(1).checkpoint(0).step(), 2u);
  const auto events = world.control().jobs().EventsAfter(1, seen, 1000)->events;
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].checkpoint().step(), 2u);
  // Nothing is told twice, and what is gone is gone.
  world.control().OnCheckpointsFound(1, {summary}, world.Now());
  EXPECT_EQ(world.control().jobs().EventsAfter(1, seen, 1000)->events.size(), 1u);
  world.control().OnCheckpointsFound(1, {}, world.Now());
  EXPECT_EQ(world.Job(1).checkpoint_size(), 0);
}

// A job that has done all steps, and whose last checkpoint is to be written.
class EndingWorld : public CheckpointWorld {
 public:
  EndingWorld() {
    const auto second = control().TakeCheckpoint();
    control().OnCheckpoint(*second, std::vector<v1::CheckpointSummary>{Summary(2)}, Now());
    for (const std::string name : {"w-1", "w-2"}) {
      for (uint64_t step = 0; step < testing::kStepsTotal; ++step) {
        EXPECT_TRUE(Report(name, 1, Step(WorkerOf(name), step)).ok());
      }
      EXPECT_TRUE(Report(name, 1, Evaluated(WorkerOf(name), testing::kStepsTotal)).ok());
      EXPECT_TRUE(Report(name, 1, Finished()).ok());
    }
    // Step 4 is given up.
    Pass(absl::Seconds(3));
    EXPECT_EQ(Job(1).state(), v1::RUNNING);
  }
  static v1::CheckpointSummary Summary(uint64_t step) {
    v1::CheckpointSummary summary;
    summary.set_step(step);
    return summary;
  }
};

TEST(ControlPlaneRestoreTest, AJobThatAwaitsItsLastCheckpointGoesOnAwaitingIt) {
  EndingWorld world;
  // Its workers are of no use to it any more.
  world.Kill("w-2");
  world.Pass(absl::Seconds(8));
  EXPECT_EQ(world.Job(1).state(), v1::RUNNING);
  for (int i = 0; i < 2; ++i) {
    world.Restart();
    EXPECT_EQ(world.Job(1).state(), v1::RUNNING);
    EXPECT_TRUE(world.Board("w-1").assignments.empty());
  }
  // Servers forget first what they copied for the one before.
  EXPECT_EQ(world.Board("s-1").assignments.at(1)->snapshot_step_size(), 0);
  world.Pass(absl::Seconds(2));
  EXPECT_EQ(world.Board("s-1").assignments.at(1)->snapshot_step_size(), 0);
  world.Pass(absl::Seconds(2));
  ASSERT_EQ(world.Board("s-1").assignments.at(1)->snapshot_step_size(), 1);
  EXPECT_EQ(world.Board("s-1").assignments.at(1)->snapshot_step(0), testing::kStepsTotal);
  v1::JobReport report;
  report.mutable_snapshot()->set_step(testing::kStepsTotal);
  report.mutable_snapshot()->set_updates(testing::kStepsTotal);
  EXPECT_TRUE(world.Report("s-1", 1, report).ok());
  const auto last = world.control().TakeCheckpoint();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->step, testing::kStepsTotal);
  world.control().OnCheckpoint(
      *last,
      std::vector<v1::CheckpointSummary>{EndingWorld::Summary(2), EndingWorld::Summary(last->step)},
      world.Now());
  EXPECT_EQ(world.StateOf(1), "SUCCEEDED: all steps done");
  world.Restart();
  EXPECT_EQ(world.StateOf(1), "SUCCEEDED: all steps done");
  EXPECT_TRUE(world.Job(1).weights_available());
}

TEST(ControlPlaneRestoreTest, ALastCheckpointThatWasCompleteButNotNotedEndsTheJob) {
  EndingWorld world;
  world.Restart();
  world.control().OnCheckpointsFound(
      1, {EndingWorld::Summary(2), EndingWorld::Summary(testing::kStepsTotal)}, world.Now());
  world.Pass(absl::Seconds(1));
  EXPECT_EQ(world.StateOf(1), "SUCCEEDED: all steps done");
  EXPECT_EQ(world.Job(1).checkpoint_size(), 2);
}

TEST(ControlPlaneRestoreTest, AServerThatComesBackLateForgetsFirstToo) {
  EndingWorld world;
  world.Kill("s-1");
  world.Restart();
  world.Pass(absl::Seconds(8));
  world.Revive("s-1");
  world.Pass(absl::Seconds(2));
  EXPECT_EQ(world.Board("s-1").assignments.at(1)->snapshot_step_size(), 0);
  world.Pass(absl::Seconds(2));
  EXPECT_EQ(world.Board("s-1").assignments.at(1)->snapshot_step_size(), 1);
  // It has as long to copy as any other.
  world.Pass(absl::Seconds(10));
  EXPECT_EQ(world.Job(1).state(), v1::RUNNING);
}

TEST(ControlPlaneRestoreTest, WithoutAServerAJobThatHasDoneAllDoesItsLastStepsAgain) {
  EndingWorld world;
  world.Kill("s-1");
  world.Restart();
  world.Pass(absl::Seconds(30));
  EXPECT_EQ(world.StateOf(1), "QUEUED: waiting for 1 of 1 server (have: none)");
  EXPECT_FALSE(world.Job(1).weights_available());
}

TEST(ControlPlaneRestoreTest, WhatTheDiskHasCountsBeforeAnythingIsJudged) {
  ControlPlane::Options options;
  options.own_server = Daemon(v1::SERVER, "s-1", 1);
  CheckpointWorld world(options);
  world.Kill("s-1");
  // Complete, but not noted.
  const CheckpointsByJob found = {{1, {EndingWorld::Summary(2)}}};
  world.Begin(&found);
  EXPECT_THAT(world.StateOf(1), HasSubstr("QUEUED"));
  EXPECT_EQ(world.Job(1).checkpoint_size(), 1);
}

TEST(ControlPlaneRestoreTest, LossesAreCountedOverARestart) {
  World world;
  for (const std::string name : {"w-1", "s-1", "w-2"}) world.Join(name);
  ASSERT_TRUE(world.Submit(SmallJob("job", 2, 1)).ok());
  world.Leave("w-2");
  world.Restart();
  EXPECT_EQ(world.control().jobs().LossesOf(1).size(), 1u);
}

TEST(ControlPlaneRestoreTest, WhoIsToDrainIsNotForgotten) {
  World world;
  for (const std::string name : {"w-1", "s-1", "w-2"}) world.Join(name);
  v1::DrainDaemonRequest drain;
  drain.set_name("w-2");
  ASSERT_TRUE(world.control().DrainDaemon(drain, world.Now()).ok());
  world.Restart();
  ASSERT_TRUE(world.Submit(SmallJob("job", 2, 1)).ok());
  EXPECT_EQ(world.StateOf(1), "QUEUED: waiting for 1 of 2 workers (have: w-1)");
}

TEST(ControlPlaneRestoreTest, AJobIsNotDeletedWhileItsCheckpointIsWritten) {
  CheckpointWorld world;
  const auto checkpoint = world.control().TakeCheckpoint();
  ASSERT_TRUE(checkpoint.has_value());
  world.Cancel("1");
  EXPECT_EQ(world.Delete("1").code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(world.control().jobs().Get(1), nullptr);
  world.control().OnCheckpoint(*checkpoint, absl::AbortedError("cancelled"), world.Now());
  EXPECT_TRUE(world.Delete("1").ok());
}

TEST(ControlPlaneRestoreTest, AJobIsNotDeletedWhileAnotherIsToGoOnFromIt) {
  CheckpointWorld world;
  v1::JobSpec spec = SmallJob("next", 2, 1);
  spec.set_resume_from("1/2");
  ASSERT_TRUE(world.Submit(spec).ok());
  world.Cancel("1");
  const absl::Status refused = world.Delete("1");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("job 2 is to go on from its checkpoint"));
  world.Cancel("2");
  EXPECT_TRUE(world.Delete("1").ok());
}

// What was said before a restart and is said again does no harm either.
TEST(ControlPlaneRestoreTest, ReportsThatComeAgainAfterARestartChangeNothing) {
  World undisturbed;
  World world;
  for (const Event& event : Life()) {
    event(&undisturbed);
    event(&world);
    if (world.control().jobs().Get(1) == nullptr || world.Job(1).state() != v1::RUNNING) continue;
    world.Restart();
    for (uint64_t step = 0; step < world.Job(1).progress().steps_done(); ++step) {
      EXPECT_TRUE(world.Report("w-1", 1, Step(WorkerOf("w-1"), step)).ok());
    }
  }
  EXPECT_EQ(world.Jobs(), undisturbed.Jobs());
}

TEST(ControlPlaneRestoreTest, RevisionsOfTheBoardAreNewOnes) {
  World world;
  world.Join("w-1");
  const uint64_t before = world.Board("w-1").revision;
  world.Restart();
  EXPECT_GT(world.Board("w-1").revision, before);
}

TEST(ControlPlaneRestoreTest, TheSameRequestIsTheSameJob) {
  World world;
  const v1::JobSpec spec = SmallJob("job", 2, 1);
  ASSERT_EQ(world.Submit(spec, "r")->id(), 1u);
  world.Restart();
  EXPECT_EQ(world.Submit(spec, "r")->id(), 1u);
  EXPECT_EQ(world.Submit(spec, "other")->id(), 2u);
  EXPECT_EQ(world.Submit(SmallJob("another", 2, 1), "r").status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(ControlPlaneRestoreTest, NumbersAreNotUsedAgainWhenTheJobIsDeleted) {
  World world;
  ASSERT_EQ(world.Submit(SmallJob("job", 2, 1))->id(), 1u);
  v1::CancelJobRequest cancel;
  cancel.set_job("1");
  ASSERT_TRUE(world.control().Cancel(cancel, world.Now()).ok());
  v1::DeleteJobRequest request;
  request.set_job("1");
  ASSERT_TRUE(world.control().Delete(request, world.Now()).ok());
  world.Restart();
  EXPECT_TRUE(world.control().jobs().Ids().empty());
  for (const auto& [key, value] : world.records()) EXPECT_EQ(key.job, 0u) << ToString(key);
  EXPECT_EQ(world.Submit(SmallJob("job", 2, 1))->id(), 2u);
}

TEST(ControlPlaneRestoreTest, ADaemonThatDoesNotComeBackIsLostAfterTheGraceAndNotBefore) {
  RunningWorld world;
  world.Kill("w-2");
  world.Restart();
  EXPECT_EQ(world.control().DescribeCluster(world.Now()).daemon_size(), 3);
  world.Pass(absl::Seconds(10));  // a lease of 5 s and 6 s to come back
  EXPECT_EQ(world.Job(1).state(), v1::RUNNING);
  world.Pass(absl::Seconds(2));
  EXPECT_EQ(world.StateOf(1), "QUEUED: waiting for 1 of 2 workers (have: w-1)");
  EXPECT_THAT(world.Jobs(), HasSubstr("worker w-2 lost: no sign of life for 11.0 s since the "
                                      "coordinator was started again"));
}

TEST(ControlPlaneRestoreTest, NothingStartsBeforeTheDaemonsHaveComeBack) {
  World world;
  world.Join("w-1");
  world.Join("w-2");
  world.Join("s-1");
  world.Kill("w-2");
  world.Restart();
  ASSERT_TRUE(world.Submit(SmallJob("job", 1, 1)).ok());
  EXPECT_EQ(world.Job(1).state(), v1::QUEUED);
  world.Pass(absl::Seconds(12));
  EXPECT_EQ(world.Job(1).state(), v1::STARTING);
  EXPECT_EQ(world.Job(1).worker(0), "w-1");
}

TEST(ControlPlaneRestoreTest, AFailureThatIsHeldBackIsNotForgotten) {
  RunningWorld world;
  ASSERT_TRUE(world.Report("w-1", 1, Failed(14, "connection lost")).ok());
  EXPECT_EQ(world.Job(1).state(), v1::RUNNING);
  world.Restart();
  EXPECT_EQ(world.Job(1).state(), v1::RUNNING);
  world.Pass(absl::Seconds(6));
  // Its cause may be a daemon that has time to come back.
  EXPECT_EQ(world.Job(1).state(), v1::RUNNING);
  world.Pass(absl::Seconds(6));
  EXPECT_THAT(world.StateOf(1), HasSubstr("worker w-1 failed: UNAVAILABLE: connection lost"));
}

TEST(ControlPlaneRestoreTest, TheOwnServersPagesAreGone) {
  ControlPlane::Options options;
  options.own_server = Daemon(v1::SERVER, "s-1", 1);
  RunningWorld world(options);
  world.Kill("s-1");
  world.Restart();
  EXPECT_EQ(world.StateOf(1),
            "FAILED: server s-1 lost: the coordinator, which also held pages, was started again; "
            "there is no checkpoint to go on from");
  EXPECT_TRUE(world.Board("w-1").assignments.empty());
}

TEST(ControlPlaneRestoreTest, WeightsAreHeldOnAndLeaveInTheirOrder) {
  ControlPlane::Options options;
  options.keep_finished_jobs = 1;
  World world(options);
  for (const Event& event : Life()) event(&world);
  world.Restart();
  EXPECT_TRUE(world.Job(1).weights_available());
  EXPECT_EQ(world.Board("s-1").assignments.at(1)->phase(), v1::Assignment::HOLD);
  // The server dies, and with it, once nobody waits for it to come back, the weights.
  world.Kill("s-1");
  world.Pass(absl::Seconds(12));
  EXPECT_FALSE(world.Job(1).weights_available());
  world.Restart();
  EXPECT_FALSE(world.Job(1).weights_available());
}

TEST(ControlPlaneRestoreTest, AnEndedJobLeavesNothingBehindButItsHistory) {
  ControlPlane::Options options;
  options.keep_finished_jobs = 0;
  World world(options);
  const std::vector<Event> life = Life();
  for (const Event& event : life) event(&world);
  for (const auto& [key, value] : world.records()) {
    EXPECT_FALSE(key.job == 1 &&
                 (key.kind == RecordKind::kReport || key.kind == RecordKind::kAssignment))
        << ToString(key);
  }
}

TEST(ControlPlaneRestoreTest, RecordsThatMakeNoSenseAreNamed) {
  RunningWorld world;
  for (const auto& [key, value] : world.records()) {
    SavedRecords damaged = world.records();
    damaged[key] = "\xff\xff\xff";
    ControlPlane::Options options;
    options.keep_records = true;
    ControlPlane control(options);
    const absl::Status status = control.Restore(damaged, world.Now());
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << ToString(key) << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(ToString(key)));
    // And none that is missing may crash it.
    damaged.erase(key);
    ControlPlane other(options);
    other.Restore(damaged, world.Now()).IgnoreError();
  }
}

}  // namespace
}  // namespace sangam
