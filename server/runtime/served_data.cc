#include "server/runtime/served_data.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/data/batch_reader.h"
#include "common/data/data_root.h"
#include "common/data/job_data.h"
#include "common/plan/batch_cut.h"
#include "common/plan/pipeline_layout.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

absl::StatusOr<BatchCut> CutOf(const v1::Assignment& assignment, const JobData& data) {
  BatchCut cut;
  cut.batch_size = assignment.spec().batch().size();
  cut.micro_batches = assignment.plan().micro_batches();
  cut.shares = assignment.plan().shares();
  cut.training_samples = data.train->num_samples();
  if (cut.micro_batches == 0 || cut.micro_batches > cut.batch_size) {
    return absl::InvalidArgumentError(absl::StrCat("plan.micro_batches: found ", cut.micro_batches,
                                                   ", expected between 1 and batch.size, ",
                                                   cut.batch_size));
  }
  return cut;
}

// Whether a stream may hold a micro-batch.
absl::Status CheckMicroBatch(const BatchReader& reader, uint64_t max_bytes) {
  const uint64_t bytes_per_sample =
      sizeof(float) * reader.input_elements() + sizeof(uint32_t) * reader.labels_per_sample();
  if (reader.max_rows() <= max_bytes / bytes_per_sample) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "batch.micro_batches: found micro-batches of ", reader.max_rows(), " samples of ",
      bytes_per_sample, " bytes with their labels, expected at most ", max_bytes,
      " bytes when the coordinator serves the data; cut the batch into more"));
}

v1::ReadyReport FactsOf(const JobData& data) {
  v1::ReadyReport facts;
  facts.set_train_samples(data.train->num_samples());
  facts.set_test_samples(data.test_samples());
  facts.set_classes(data.classes());
  return facts;
}

}  // namespace

ServedData::ServedData(Options options, Done done)
    : options_(std::move(options)), done_(std::move(done)) {
  thread_ = std::thread([this] { Work(); });
}

ServedData::~ServedData() { Stop(); }

void ServedData::Stop() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    cancel_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void ServedData::Reconcile(std::vector<std::shared_ptr<const v1::Assignment>> jobs) {
  std::map<uint64_t, Entry> dropped;  // let go of without the lock
  MutexLock lock(&mutex_);
  std::set<uint64_t> wanted;
  for (const auto& assignment : jobs) wanted.insert(assignment->plan().job());
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    const auto next = std::next(it);
    if (wanted.count(it->first) == 0) dropped.insert(jobs_.extract(it));
    it = next;
  }
  if (dropped.count(opening_) > 0) cancel_ = true;
  for (auto& assignment : jobs) {
    Entry& entry = jobs_[assignment->plan().job()];
    entry.wanted = std::move(assignment);
  }
  changed_.SignalAll();
}

absl::StatusOr<std::shared_ptr<const ServedJob>> ServedData::Find(uint64_t job) const {
  MutexLock lock(&mutex_);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) {
    return absl::NotFoundError(absl::StrCat("job ", job, ": the coordinator serves no data of it"));
  }
  const Entry& entry = found->second;
  if (entry.open != nullptr) return entry.open;
  if (entry.failure.ok()) {
    // A worker that trains asks at once when the coordinator was started again.
    return absl::UnavailableError(absl::StrCat("job ", job, ": its data is not open yet"));
  }
  return absl::NotFoundError(
      absl::StrCat("job ", job, ": its data is not open: ", entry.failure.ToString()));
}

std::shared_ptr<const v1::Assignment> ServedData::NextToOpen() const {
  for (const auto& [job, entry] : jobs_) {
    if (entry.done_generation != entry.wanted->plan().generation()) return entry.wanted;
  }
  return nullptr;
}

uint64_t ServedData::MemoryInUse() const {
  uint64_t bytes = 0;
  for (const auto& [job, entry] : jobs_) {
    if (entry.open != nullptr) bytes += entry.open->data->memory_bytes();
  }
  return bytes;
}

void ServedData::Work() {
  for (;;) {
    std::shared_ptr<const v1::Assignment> assignment;
    std::shared_ptr<const ServedJob> existing;
    uint64_t memory_in_use = 0;
    {
      MutexLock lock(&mutex_);
      while (!stopped_ && (assignment = NextToOpen()) == nullptr) {
        changed_.WaitFor(&mutex_, absl::Hours(1));
      }
      if (stopped_) return;
      opening_ = assignment->plan().job();
      cancel_ = false;
      existing = jobs_[opening_].open;
      memory_in_use = MemoryInUse();
    }
    const uint64_t job = assignment->plan().job();
    const uint64_t generation = assignment->plan().generation();
    const absl::StatusOr<std::shared_ptr<const ServedJob>> opened =
        Open(assignment, existing, memory_in_use);
    {
      MutexLock lock(&mutex_);
      opening_ = 0;
      const auto found = jobs_.find(job);
      // Not wanted any more, or wanted anew after it was dropped.
      if (stopped_ || found == jobs_.end() || cancel_) continue;
      found->second.done_generation = generation;
      found->second.open = opened.ok() ? *opened : nullptr;
      found->second.failure = opened.status();
    }
    if (opened.ok()) {
      LogInfo("data is served", "job=%d generation=%d train_samples=%d memory_bytes=%d", job,
              generation, (*opened)->data->train->num_samples(), (*opened)->data->memory_bytes());
      done_(job, generation, FactsOf(*(*opened)->data));
    } else {
      LogWarning("data cannot be served", "job=%d generation=%d status=%s", job, generation,
                 LogValue(opened.status().ToString()));
      done_(job, generation, opened.status());
    }
  }
}

absl::StatusOr<std::shared_ptr<const ServedJob>> ServedData::Open(
    std::shared_ptr<const v1::Assignment> assignment,
    const std::shared_ptr<const ServedJob>& existing, uint64_t memory_in_use) {
  RETURN_IF_ERROR(CheckStages(assignment->plan()), "job %d", assignment->plan().job());
  std::shared_ptr<const JobData> data;
  if (existing != nullptr) {
    data = existing->data;
  } else {
    ASSIGN_OR_RETURN(data, OpenData(*assignment, memory_in_use), "job %d",
                     assignment->plan().job());
  }
  ASSIGN_OR_RETURN(const BatchCut cut, CutOf(*assignment, *data), "job %d",
                   assignment->plan().job());
  const BatchReader reader(assignment->spec(), cut, data.get());
  RETURN_IF_ERROR(CheckMicroBatch(reader, options_.max_micro_batch_bytes), "job %d",
                  assignment->plan().job());
  return std::make_shared<const ServedJob>(
      ServedJob{std::move(assignment), std::move(data), reader});
}

absl::StatusOr<std::shared_ptr<const JobData>> ServedData::OpenData(
    const v1::Assignment& assignment, uint64_t memory_in_use) {
  if (!options_.root.has_value()) {
    return absl::FailedPreconditionError(
        "data.served: the coordinator has no folder to read data from; start it with "
        "--data_root=DIR");
  }
  JobDataOptions data;
  data.root = &*options_.root;
  data.cancelled = &cancel_;
  if (options_.memory_limit > 0) {
    data.max_memory_bytes =
        options_.memory_limit > memory_in_use ? options_.memory_limit - memory_in_use : 0;
  }
  ASSIGN_OR_RETURN(JobData opened, OpenJobData(assignment.spec(), assignment.plan().layout(), data),
                   "data of the coordinator");
  return std::make_shared<const JobData>(std::move(opened));
}

}  // namespace sangam
