#include "server/core/run_journal.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "proto/saved_state.pb.h"
#include "server/core/job_progress.h"
#include "server/core/job_run.h"
#include "server/core/saved_records.h"

namespace sangam {
namespace {

// Numbers of the records: a run takes reports of readiness first, then those of training by step,
// then that a worker has finished, then a failure. SQLite's numbers end at 2^63 - 1.
constexpr uint64_t kReady = 0;
constexpr uint64_t kFinished = std::numeric_limits<int64_t>::max() - 1;
constexpr uint64_t kFailed = std::numeric_limits<int64_t>::max();

constexpr char kStepPart[] = "step ";
constexpr char kEvaluationPart[] = "evaluation ";

// The parts of a report that together with the step tell it from every other one, so that the same
// report, sent again, is written once.
std::string PartOf(absl::string_view kind, PlanMember member, uint32_t first = 0) {
  return absl::StrFormat("%s%d %d %d", kind, static_cast<int>(member.role), member.index, first);
}

// The record of a report, nothing when it need not be kept.
std::optional<RecordKey> KeyOfReport(const JobRun& run, PlanMember member,
                                     const v1::JobReport& report) {
  const auto key = [&run](uint64_t number, std::string part) {
    return RecordKey{RecordKind::kReport, run.job(), number, std::move(part)};
  };
  if (report.has_ready()) {
    if (run.running()) return std::nullopt;
    return key(kReady, PartOf("ready ", member));
  }
  if (report.has_failed()) {
    if (!run.holds_failure()) return std::nullopt;
    return key(kFailed, "failed");
  }
  if (!run.running()) return std::nullopt;
  if (report.has_step()) {
    const v1::StepReport& step = report.step();
    if (step.step() < run.steps_done()) return std::nullopt;
    return key(step.step(), PartOf(kStepPart, member, step.first_share()));
  }
  if (report.has_evaluation()) {
    const v1::EvaluationReport& evaluation = report.evaluation();
    if (evaluation.chunk_size() == 0) return std::nullopt;
    if (run.last_evaluation().has_value() && evaluation.step() <= *run.last_evaluation()) {
      return std::nullopt;
    }
    return key(evaluation.step(), PartOf(kEvaluationPart, member, evaluation.chunk(0).chunk()));
  }
  if (report.has_finished()) return key(kFinished, PartOf("finished ", member));
  return std::nullopt;
}

bool BeginsWith(const std::string& text, absl::string_view prefix) {
  return text.compare(0, prefix.size(), prefix.data(), prefix.size()) == 0;
}

// Whether what the report was part of is complete.
bool IsMerged(const RecordKey& key, const JobRun& run) {
  if (BeginsWith(key.part, kStepPart)) return key.number < run.steps_done();
  if (BeginsWith(key.part, kEvaluationPart)) {
    return run.last_evaluation().has_value() && key.number <= *run.last_evaluation();
  }
  return false;
}

}  // namespace

void RunJournal::Assign(const v1::Assignment& assignment) {
  if (!keep_) return;
  const uint64_t job = assignment.plan().job();
  v1::Assignment small = assignment;
  small.clear_spec();
  small.mutable_plan()->clear_layout();
  changes_[{RecordKind::kAssignment, job, 0, ""}] = small.SerializeAsString();
  if (assignment.phase() == v1::Assignment::PREPARE) return;
  for (const RecordKey& key : reports_[job]) changes_[key] = std::nullopt;
  reports_.erase(job);
}

void RunJournal::Add(const JobRun& run, PlanMember member, const v1::JobReport& report) {
  if (!keep_) return;
  std::set<RecordKey>& reports = reports_[run.job()];
  if (run.running()) {
    // By step, so that what is merged stands at the begin.
    const uint64_t end = std::max(run.steps_done(), run.last_evaluation().value_or(0) + 1);
    for (auto it = reports.begin(); it != reports.end() && it->number < end;) {
      if (!IsMerged(*it, run)) {
        ++it;
        continue;
      }
      changes_[*it] = std::nullopt;
      it = reports.erase(it);
    }
  }
  const std::optional<RecordKey> key = KeyOfReport(run, member, report);
  if (!key.has_value()) return;
  // A failure that is held back is the first one.
  if (key->number == kFailed && reports.count(*key) != 0) return;
  v1::SavedReport saved;
  saved.set_role(member.role);
  saved.set_index(member.index);
  *saved.mutable_report() = report;
  changes_[*key] = saved.SerializeAsString();
  reports.insert(*key);
}

void RunJournal::SetSkipped(uint64_t job, const SkippedSteps& skipped) {
  if (!keep_ || !skipped.last.has_value()) return;
  v1::SavedSkips saved;
  saved.set_last_step(*skipped.last);
  saved.set_in_a_row(skipped.in_a_row);
  skipped_.insert(job);
  changes_[{RecordKind::kSkips, job, 0, ""}] = saved.SerializeAsString();
}

void RunJournal::End(uint64_t job) {
  if (!keep_) return;
  changes_[{RecordKind::kAssignment, job, 0, ""}] = std::nullopt;
  if (skipped_.erase(job) != 0) changes_[{RecordKind::kSkips, job, 0, ""}] = std::nullopt;
  if (const auto found = reports_.find(job); found != reports_.end()) {
    for (const RecordKey& key : found->second) changes_[key] = std::nullopt;
    reports_.erase(found);
  }
}

void RunJournal::TakeRecords(RecordChanges* changes) {
  for (auto& [key, value] : changes_) (*changes)[key] = std::move(value);
  changes_.clear();
}

absl::StatusOr<RunJournal::Held> RunJournal::Restore(const SavedRecords& records,
                                                     const v1::Job& job) {
  Held held;
  const auto damaged = [](const RecordKey& key) {
    return absl::DataLossError(absl::StrCat(ToString(key), ": found bytes that make no sense"));
  };
  const RecordKey key{RecordKind::kAssignment, job.id(), 0, ""};
  if (const auto found = records.find(key); found != records.end()) {
    auto assignment = std::make_shared<v1::Assignment>();
    if (!assignment->ParseFromString(found->second) || assignment->plan().job() != job.id()) {
      return damaged(key);
    }
    *assignment->mutable_spec() = job.spec();
    *assignment->mutable_plan()->mutable_layout() = job.layout();
    held.assignment = std::move(assignment);
  }
  const RecordKey skips{RecordKind::kSkips, job.id(), 0, ""};
  if (const auto found = records.find(skips); found != records.end()) {
    v1::SavedSkips saved;
    if (!saved.ParseFromString(found->second)) return damaged(skips);
    held.skipped = {saved.last_step(), saved.in_a_row()};
    if (keep_) skipped_.insert(job.id());
  }
  const RecordKey first{RecordKind::kReport, job.id(), 0, ""};
  for (auto it = records.lower_bound(first);
       it != records.end() && it->first.kind == RecordKind::kReport && it->first.job == job.id();
       ++it) {
    v1::SavedReport saved;
    if (!saved.ParseFromString(it->second)) return damaged(it->first);
    held.reports.push_back(std::move(saved));
    if (keep_) reports_[job.id()].insert(it->first);
  }
  return held;
}

}  // namespace sangam
