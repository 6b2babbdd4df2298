#include "server/runtime/shard_table.h"

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/parameter_page.h"
#include "server/core/shard_layout.h"
#include "server/runtime/job_shard.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/vote_link.h"

namespace sangam {
namespace {

v1::JobReport Failed(const absl::Status& status) {
  v1::JobReport report;
  report.mutable_failed()->set_code(static_cast<int32_t>(status.code()));
  report.mutable_failed()->set_message(std::string(status.message()));
  return report;
}

}  // namespace

ShardTable::ShardTable(std::string server_name, ShardTableOptions options)
    : server_name_(std::move(server_name)),
      options_(std::move(options)),
      pool_(options_.update_threads) {}

ShardTable::~ShardTable() = default;

std::vector<v1::ReportRequest> ShardTable::Reconcile(
    const std::vector<v1::Assignment>& assignments) {
  MutexLock lock(&reconcile_mutex_);
  DropUnassigned(assignments);
  // What needs less from now on makes room for the others, whatever the order of their numbers.
  for (const v1::Assignment& assignment : assignments) {
    if (assignment.phase() == v1::Assignment::HOLD) Hold(assignment);
  }
  std::vector<v1::ReportRequest> reports;
  for (const v1::Assignment& assignment : assignments) {
    if (assignment.phase() == v1::Assignment::HOLD) continue;
    std::optional<v1::JobReport> report = ReconcileJob(assignment);
    if (!report.has_value()) continue;
    v1::ReportRequest& request = reports.emplace_back();
    request.set_job(assignment.plan().job());
    request.set_generation(assignment.plan().generation());
    *request.add_report() = *std::move(report);
  }
  return reports;
}

void ShardTable::DropUnassigned(const std::vector<v1::Assignment>& assignments) {
  std::set<uint64_t> assigned;
  for (const v1::Assignment& assignment : assignments) assigned.insert(assignment.plan().job());
  std::map<uint64_t, Entry> dropped;
  {
    MutexLock lock(&mutex_);
    for (auto it = jobs_.begin(); it != jobs_.end();) {
      const auto next = std::next(it);
      if (assigned.count(it->first) == 0) dropped.insert(jobs_.extract(it));
      it = next;
    }
  }
  for (const auto& [job, entry] : dropped) {
    if (entry.shard != nullptr) entry.shard->Drop();
    LogInfo("job dropped", "job=%d generation=%d", job, entry.generation);
  }
}

void ShardTable::Hold(const v1::Assignment& assignment) {
  const uint64_t job = assignment.plan().job();
  std::optional<Entry> entry = Lookup(job);
  if (!entry.has_value() || entry->shard == nullptr) {
    LogWarning("nothing to hold", "job=%d generation=%d", job, assignment.plan().generation());
    return;
  }
  if (entry->held) return;
  const ParameterPage::Ignored ignored = entry->shard->ignored();
  entry->shard->Reduce();
  entry->held = true;
  Store(job, *entry);
  LogInfo("job held", "job=%d generation=%d memory_bytes=%d ignored_covered=%d ignored_finished=%d",
          job, entry->generation, entry->shard->memory_bytes(), ignored.covered, ignored.finished);
}

std::optional<v1::JobReport> ShardTable::ReconcileJob(const v1::Assignment& assignment) {
  const uint64_t job = assignment.plan().job();
  const uint64_t generation = assignment.plan().generation();
  std::optional<Entry> entry = Lookup(job);
  // An older one: superseded by what is here.
  if (entry.has_value() && generation < entry->generation) return std::nullopt;
  if (entry.has_value() && generation == entry->generation) {
    // First, so that no page goes past a step before it knows that it is wanted.
    WantSnapshots(assignment);
    if (const absl::Status status = Run(assignment, *entry); !status.ok()) return Failed(status);
    return std::nullopt;
  }
  // The job begins anew, where the assignment says, and its pages may lie elsewhere. Those that are
  // here go first, to make room.
  if (entry.has_value() && entry->shard != nullptr && !entry->held) {
    entry->shard->Drop();
    entry->shard = nullptr;
    Store(job, *entry);
  }
  absl::StatusOr<std::shared_ptr<JobShard>> shard =
      Prepare(assignment, entry.has_value() && entry->held);
  if (!shard.ok()) {
    LogWarning("job not prepared", "job=%d generation=%d status=%s", job, generation,
               LogValue(shard.status().ToString()));
    Store(job, {generation, nullptr});
    return Failed(shard.status());
  }
  Store(job, {generation, *shard});
  WantSnapshots(assignment);
  if (const absl::Status status = Run(assignment, {generation, *shard}); !status.ok()) {
    return Failed(status);
  }
  LogInfo("job prepared", "job=%d generation=%d memory_bytes=%d", job, generation,
          (*shard)->memory_bytes());
  v1::JobReport report;
  report.mutable_ready()->set_memory_bytes((*shard)->memory_bytes());
  return report;
}

absl::Status ShardTable::Run(const v1::Assignment& assignment, Entry entry) {
  if (assignment.phase() != v1::Assignment::RUN || entry.running || entry.shard == nullptr) {
    return absl::OkStatus();
  }
  entry.running = true;
  Store(assignment.plan().job(), entry);
  return entry.shard->Run(assignment);
}

void ShardTable::WantSnapshots(const v1::Assignment& assignment) {
  const std::optional<Entry> entry = Lookup(assignment.plan().job());
  if (!entry.has_value() || entry->shard == nullptr || entry->held) return;
  entry->shard->WantSnapshots(assignment.plan().generation(), {assignment.snapshot_step().begin(),
                                                               assignment.snapshot_step().end()});
}

absl::StatusOr<std::shared_ptr<JobShard>> ShardTable::Prepare(const v1::Assignment& assignment,
                                                              bool held) {
  const uint64_t job = assignment.plan().job();
  if (held) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job, ": server '", server_name_, "' keeps only its last weights, it has ended"));
  }
  ASSIGN_OR_RETURN(ShardLayout layout, LayOutShard(assignment, server_name_), "job %d", job);
  if (assignment.phase() != v1::Assignment::PREPARE) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job, ": found phase ", v1::Assignment::Phase_Name(assignment.phase()),
                     ", expected PREPARE, since server '", server_name_, "' holds nothing of it"));
  }
  const uint64_t in_use = MemoryBytes();
  if (options_.memory_limit > 0 && layout.memory_bytes + in_use > options_.memory_limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memory of server '", server_name_, "': job ", assignment.plan().job(),
                     " needs ", layout.memory_bytes, " bytes for weights and optimizer state, ",
                     in_use, " are in use, the limit is ", options_.memory_limit));
  }
  return JobShard::Create(assignment, std::move(layout),
                          {&pool_, options_.open_link, options_.report, options_.read_checkpoint});
}

absl::StatusOr<std::shared_ptr<ParameterShard>> ShardTable::Find(uint64_t job) const {
  const std::optional<Entry> entry = Lookup(job);
  if (!entry.has_value() || entry->shard == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("job ", job, ": server '", server_name_, "' does not hold it"));
  }
  return entry->shard;
}

absl::StatusOr<std::shared_ptr<VoteCounter>> ShardTable::FindCounter(uint64_t job) const {
  const std::optional<Entry> entry = Lookup(job);
  std::shared_ptr<VoteCounter> counter;
  if (entry.has_value() && entry->shard != nullptr) counter = entry->shard->counter();
  if (counter != nullptr) return counter;
  return absl::NotFoundError(
      absl::StrCat("job ", job, ": server '", server_name_, "' does not count its votes"));
}

uint64_t ShardTable::MemoryBytes() const {
  MutexLock lock(&mutex_);
  uint64_t bytes = 0;
  for (const auto& [job, entry] : jobs_) {
    if (entry.shard != nullptr) bytes += entry.shard->memory_bytes();
  }
  return bytes;
}

std::optional<ShardTable::Entry> ShardTable::Lookup(uint64_t job) const {
  MutexLock lock(&mutex_);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return std::nullopt;
  return found->second;
}

void ShardTable::Store(uint64_t job, Entry entry) {
  MutexLock lock(&mutex_);
  jobs_[job] = std::move(entry);
}

}  // namespace sangam
