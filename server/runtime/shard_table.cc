#include "server/runtime/shard_table.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/parameter_page.h"
#include "server/core/shard_layout.h"
#include "server/runtime/job_shard.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/vote_link.h"

namespace sangam {
namespace {

// How long a job waits for the memory of what is read for nobody. Pages come often; where none does
// the connection is lost, which has a deadline of its own.
constexpr absl::Duration kLetGoDeadline = absl::Seconds(10);

v1::JobReport Failed(const absl::Status& status) {
  v1::JobReport report;
  report.mutable_failed()->set_code(static_cast<int32_t>(status.code()));
  report.mutable_failed()->set_message(std::string(status.message()));
  return report;
}

v1::ReportRequest RequestOf(const v1::Assignment& assignment, v1::JobReport report) {
  v1::ReportRequest request;
  request.set_job(assignment.plan().job());
  request.set_generation(assignment.plan().generation());
  *request.add_report() = std::move(report);
  return request;
}

}  // namespace

ShardTable::ShardTable(std::string server_name, ShardTableOptions options)
    : server_name_(std::move(server_name)),
      options_(std::move(options)),
      pool_(options_.update_threads) {}

ShardTable::~ShardTable() {
  std::vector<Reader> readers;
  {
    MutexLock lock(&reconcile_mutex_);
    readers.swap(readers_);
  }
  for (Reader& reader : readers) reader.reading->cancelled.store(true);
  for (Reader& reader : readers) reader.thread.join();
}

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
    reports.push_back(RequestOf(assignment, *std::move(report)));
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
    CancelReaders(job);
    if (entry.shard != nullptr) Drop(entry.shard);
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
  if (entry.has_value() && !entry->held) {
    CancelReaders(job);
    if (entry->shard != nullptr) Drop(entry->shard);
    entry->shard = nullptr;
    Store(job, *entry);
  }
  absl::StatusOr<ShardLayout> layout = LayOut(assignment, entry.has_value() && entry->held);
  if (layout.ok() && assignment.first_step() > 0 && options_.report != nullptr) {
    Read(assignment, *std::move(layout));
    return std::nullopt;
  }
  Store(job, {generation, nullptr});
  return Prepared(assignment, layout.ok()
                                  ? Create(assignment, *std::move(layout), options_.read_checkpoint)
                                  : absl::StatusOr<std::shared_ptr<JobShard>>(layout.status()));
}

void ShardTable::CancelReaders(uint64_t job) {
  for (const Reader& reader : readers_) {
    if (reader.reading->job == job) reader.reading->cancelled.store(true);
  }
}

bool ShardTable::AwaitsReaders() const {
  return std::any_of(readers_.begin(), readers_.end(), [](const Reader& reader) {
    return reader.reading->cancelled.load() && !reader.reading->let_go.load();
  });
}

void ShardTable::Read(const v1::Assignment& assignment, ShardLayout layout) {
  Store(assignment.plan().job(), {assignment.plan().generation(), nullptr});
  for (size_t r = 0; r < readers_.size();) {
    if (!readers_[r].reading->done.load()) {
      ++r;
      continue;
    }
    readers_[r].thread.join();
    readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(r));
  }
  const uint64_t bytes = layout.memory_bytes;
  {
    MutexLock lock(&mutex_);
    reading_bytes_ += bytes;
  }
  const auto reading = std::make_shared<Reading>();
  reading->job = assignment.plan().job();
  const CheckpointReader reader = [this, reading](const v1::Assignment& of,
                                                  const TakeStatePage& take) {
    return options_.read_checkpoint(
        of, [&](const v1::FrameHeader& header, absl::string_view payload) -> absl::Status {
          if (reading->cancelled.load()) return absl::CancelledError("nobody wants it any more");
          return take(header, payload);
        });
  };
  std::thread thread(
      [this, assignment, layout = std::move(layout), reading, reader, bytes]() mutable {
        auto shard = Create(assignment, std::move(layout), reader);
        std::optional<v1::JobReport> report;
        {
          MutexLock lock(&reconcile_mutex_);
          // A later reader of the same generation may have taken its place.
          if (reading->cancelled.load()) {
            LogInfo("job is not wanted any more", "job=%d generation=%d", assignment.plan().job(),
                    assignment.plan().generation());
          } else {
            report = Prepared(assignment, shard);
          }
          // Frees it where the table has not taken it, before it counts as free.
          shard = absl::CancelledError("let go");
          {
            MutexLock counted(&mutex_);
            reading_bytes_ -= bytes;
          }
          reading->let_go.store(true);
          reader_let_go_.SignalAll();
        }
        if (report.has_value()) options_.report(RequestOf(assignment, *std::move(report)));
        reading->done.store(true);
      });
  readers_.push_back({std::move(thread), reading});
}

std::optional<v1::JobReport> ShardTable::Prepared(
    const v1::Assignment& assignment, const absl::StatusOr<std::shared_ptr<JobShard>>& shard) {
  const uint64_t job = assignment.plan().job();
  const uint64_t generation = assignment.plan().generation();
  const std::optional<Entry> entry = Lookup(job);
  if (!entry.has_value() || entry->generation != generation || entry->held) {
    LogInfo("job is not wanted any more", "job=%d generation=%d", job, generation);
    return std::nullopt;
  }
  if (!shard.ok()) {
    LogWarning("job not prepared", "job=%d generation=%d status=%s", job, generation,
               LogValue(shard.status().ToString()));
    Store(job, {generation, nullptr});
    return Failed(shard.status());
  }
  Store(job, {generation, *shard});
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

absl::StatusOr<ShardLayout> ShardTable::LayOut(const v1::Assignment& assignment, bool held) {
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
  if (options_.memory_limit > 0) {
    const absl::Duration deadline = Clock::Real().Steady() + kLetGoDeadline;
    for (;;) {
      const absl::Duration left = deadline - Clock::Real().Steady();
      const bool fits = layout.memory_bytes + MemoryBytes() <= options_.memory_limit;
      if (fits || !AwaitsReaders() || left <= absl::ZeroDuration()) break;
      reader_let_go_.WaitFor(&reconcile_mutex_, left);
    }
  }
  const uint64_t in_use = MemoryBytes();
  if (options_.memory_limit > 0 && layout.memory_bytes + in_use > options_.memory_limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memory of server '", server_name_, "': job ", assignment.plan().job(),
                     " needs ", layout.memory_bytes, " bytes for weights and optimizer state, ",
                     in_use, " are in use, the limit is ", options_.memory_limit));
  }
  return layout;
}

absl::StatusOr<std::shared_ptr<JobShard>> ShardTable::Create(const v1::Assignment& assignment,
                                                             ShardLayout layout,
                                                             CheckpointReader reader) {
  return JobShard::Create(
      assignment, std::move(layout),
      {&pool_, options_.open_link, options_.report, std::move(reader), options_.budget});
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
  uint64_t bytes = reading_bytes_;
  for (const auto& [job, entry] : jobs_) {
    if (entry.shard != nullptr) bytes += entry.shard->memory_bytes();
  }
  return bytes;
}

std::vector<ShardTable::JobFacts> ShardTable::Jobs() const {
  std::vector<JobFacts> jobs;
  MutexLock lock(&mutex_);
  for (const auto& [job, entry] : jobs_) {
    if (entry.shard == nullptr) continue;
    jobs.push_back(
        {job, entry.generation, entry.shard->num_pages(), entry.shard->memory_bytes(), entry.held});
  }
  return jobs;
}

ParameterPage::Ignored ShardTable::ignored() const {
  std::vector<std::shared_ptr<JobShard>> shards;
  ParameterPage::Ignored sum;
  {
    MutexLock lock(&mutex_);
    sum = ignored_before_;
    for (const auto& [job, entry] : jobs_) {
      if (entry.shard != nullptr) shards.push_back(entry.shard);
    }
  }
  for (const std::shared_ptr<JobShard>& shard : shards) {
    const ParameterPage::Ignored ignored = shard->ignored();
    sum.covered += ignored.covered;
    sum.finished += ignored.finished;
  }
  return sum;
}

void ShardTable::Drop(const std::shared_ptr<JobShard>& shard) {
  shard->Drop();
  const ParameterPage::Ignored ignored = shard->ignored();
  MutexLock lock(&mutex_);
  ignored_before_.covered += ignored.covered;
  ignored_before_.finished += ignored.finished;
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
