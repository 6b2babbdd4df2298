#ifndef SANGAM_SERVER_CORE_RUN_JOURNAL_H_
#define SANGAM_SERVER_CORE_RUN_JOURNAL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "proto/saved_state.pb.h"
#include "server/core/job_progress.h"
#include "server/core/job_run.h"
#include "server/core/saved_records.h"

namespace sangam {

// What must be written down of the jobs that daemons hold, so that another coordinator can take
// them up: the newest assignment of each, and the reports whose content is in no other record yet
// (who is ready; losses of steps and chunks of evaluations that are not complete; who has finished;
// a failure that is held back). A report leaves the journal as soon as what it was part of is
// complete, so it is bounded as the sums are that wait for it.
//
// Pure and not thread-safe.
class RunJournal {
 public:
  // `keep`: whether TakeRecords is called; when not, nothing is kept.
  explicit RunJournal(bool keep) : keep_(keep) {}

  // The daemons of the job have this assignment now; reports of readiness are over with RUN, all
  // with HOLD.
  void Assign(const v1::Assignment& assignment);
  // The run has taken the report, and goes on.
  void Add(const JobRun& run, PlanMember member, const v1::JobReport& report);
  // The run of the job, or one that has succeeded, has skipped steps.
  void SetSkipped(uint64_t job, const SkippedSteps& skipped);
  // No daemon holds the job any more.
  void End(uint64_t job);

  void TakeRecords(RecordChanges* changes);

  // A job that daemons held.
  struct Held {
    std::shared_ptr<const v1::Assignment> assignment;
    SkippedSteps skipped;
    std::vector<v1::SavedReport> reports;  // in an order in which a run takes them
  };
  // Reads what is written of a job, and goes on from there. Nullptr in `assignment`: no daemon held
  // it.
  // Errors: DataLoss  a record makes no sense; names it
  absl::StatusOr<Held> Restore(const SavedRecords& records, const v1::Job& job);

 private:
  const bool keep_;
  std::map<uint64_t, std::set<RecordKey>> reports_;  // that are written, by job
  std::set<uint64_t> skipped_;                       // jobs with a record of it
  RecordChanges changes_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_RUN_JOURNAL_H_
