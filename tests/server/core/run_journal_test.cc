#include "server/core/run_journal.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "server/core/job_progress.h"
#include "server/core/job_run.h"
#include "server/core/saved_records.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::Evaluated;
using testing::Finished;
using testing::PlanOf;
using testing::Ready;
using testing::SmallJob;
using testing::Step;

constexpr PlanMember kWorker1{v1::WORKER, 0};
constexpr PlanMember kWorker2{v1::WORKER, 1};
constexpr PlanMember kServer{v1::SERVER, 0};

// A run with its journal, whose records are written after each call.
class RunJournalTest : public ::testing::Test {
 protected:
  RunJournalTest() : run_(AssignmentOf(v1::Assignment::PREPARE), {}, absl::ZeroDuration()) {
    journal_.Assign(*AssignmentOf(v1::Assignment::PREPARE));
    Save();
  }

  static std::shared_ptr<const v1::Assignment> AssignmentOf(v1::Assignment::Phase phase) {
    auto assignment = std::make_shared<v1::Assignment>();
    assignment->set_phase(phase);
    *assignment->mutable_spec() = SmallJob("job", 2, 1);
    *assignment->mutable_plan() = PlanOf(assignment->spec());
    return assignment;
  }

  void Save() {
    RecordChanges changes;
    journal_.TakeRecords(&changes);
    for (const auto& [key, value] : changes) {
      if (value.has_value()) {
        records_[key] = *value;
      } else {
        records_.erase(key);
      }
    }
  }

  void Report(PlanMember member, const v1::JobReport& report) {
    const JobRun::Effects effects = run_.OnReport(member, report, absl::Seconds(1));
    EXPECT_FALSE(effects.outcome.has_value());
    if (effects.run.has_value()) journal_.Assign(*AssignmentOf(v1::Assignment::RUN));
    journal_.Add(run_, member, report);
    Save();
  }
  void AllReady() {
    for (const PlanMember member : {kWorker1, kWorker2, kServer}) Report(member, Ready());
    ASSERT_TRUE(run_.running());
  }
  const v1::WorkerPlan& worker(int index) const { return run_.plan().worker(index); }

  size_t NumReports() const {
    size_t count = 0;
    for (const auto& [key, value] : records_) count += key.kind == RecordKind::kReport ? 1 : 0;
    return count;
  }

  RunJournal journal_{true};
  JobRun run_;
  SavedRecords records_;
};

TEST_F(RunJournalTest, KeepsWhatIsNotMergedAndNothingElse) {
  EXPECT_EQ(NumReports(), 0u);
  Report(kWorker1, Ready());
  Report(kServer, Ready());
  EXPECT_EQ(NumReports(), 2u);
  Report(kWorker2, Ready());
  EXPECT_EQ(NumReports(), 0u);  // all ready: the assignment of phase RUN says it
  for (uint64_t step = 0; step < 3; ++step) Report(kWorker1, Step(worker(0), step));
  EXPECT_EQ(NumReports(), 3u);
  Report(kWorker1, Step(worker(0), 2));  // again
  EXPECT_EQ(NumReports(), 3u);
  Report(kWorker2, Step(worker(1), 0));
  Report(kWorker2, Step(worker(1), 1));
  EXPECT_EQ(NumReports(), 1u);
  Report(kWorker1, Step(worker(0), 0));  // a step that is complete
  EXPECT_EQ(NumReports(), 1u);
  Report(kWorker2, Step(worker(1), 2));
  EXPECT_EQ(NumReports(), 0u);
  Report(kWorker1, Evaluated(worker(0), 3));
  EXPECT_EQ(NumReports(), 1u);
  Report(kWorker2, Evaluated(worker(1), 3));
  EXPECT_EQ(NumReports(), 0u);
  Report(kWorker2, Finished());
  EXPECT_EQ(NumReports(), 1u);
  journal_.End(1);
  Save();
  EXPECT_TRUE(records_.empty());
}

TEST_F(RunJournalTest, RestoresTheAssignmentWithWhatTheJobKnows) {
  AllReady();
  Report(kWorker1, Step(worker(0), 1));
  Report(kWorker2, Finished());
  Report(kWorker1, Step(worker(0), 0));
  v1::Job job;
  job.set_id(1);
  *job.mutable_spec() = run_.spec();
  *job.mutable_layout() = run_.plan().layout();
  RunJournal other(true);
  const auto held = other.Restore(records_, job);
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_NE(held->assignment, nullptr);
  EXPECT_EQ(held->assignment->SerializeAsString(),
            AssignmentOf(v1::Assignment::RUN)->SerializeAsString());
  ASSERT_EQ(held->reports.size(), 3u);
  EXPECT_EQ(held->reports[0].report().step().step(), 0u);
  EXPECT_EQ(held->reports[1].report().step().step(), 1u);
  EXPECT_TRUE(held->reports[2].report().has_finished());
  // The other one knows what is written, and lets go of it.
  other.End(1);
  RecordChanges changes;
  other.TakeRecords(&changes);
  EXPECT_EQ(changes.size(), records_.size());
}

TEST_F(RunJournalTest, WithoutAStoreNothingIsKept) {
  RunJournal journal(false);
  journal.Assign(*AssignmentOf(v1::Assignment::PREPARE));
  journal.Add(run_, kWorker1, Ready());
  journal.End(1);
  RecordChanges changes;
  journal.TakeRecords(&changes);
  EXPECT_TRUE(changes.empty());
}

}  // namespace
}  // namespace sangam
