#include "server/runtime/record_writer.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "server/core/saved_records.h"

namespace sangam {

uint64_t RecordWriter::Add(RecordChanges changes) {
  MutexLock lock(&mutex_);
  if (changes.empty()) return added_;
  if (pending_.empty()) {
    pending_ = std::move(changes);
  } else {
    for (auto& [key, value] : changes) pending_[key] = std::move(value);
  }
  return ++added_;
}

uint64_t RecordWriter::added() const {
  MutexLock lock(&mutex_);
  return added_;
}

absl::Status RecordWriter::Await(uint64_t ticket) {
  MutexLock lock(&mutex_);
  const uint64_t failures = failures_;
  while (written_ < ticket) {
    // Another's failure while we waited is ours too.
    if (failures_ != failures) return failure_;
    if (writing_) {
      done_.WaitFor(&mutex_, absl::Hours(1));
      continue;
    }
    if (const absl::Status status = WritePending(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RecordWriter::WritePending() {
  RecordChanges changes = std::exchange(pending_, {});
  const uint64_t ticket = added_;
  writing_ = true;
  mutex_.Unlock();
  const absl::Status status = store_.Write(changes);
  mutex_.Lock();
  writing_ = false;
  done_.SignalAll();
  if (status.ok()) {
    written_ = ticket;
    if (!failure_.ok()) LogInfo("state is written again", "changes=%d", changes.size());
    failure_ = absl::OkStatus();
    return failure_;
  }
  if (failure_.ok()) {
    LogError("state cannot be written, calls that change it are refused", "error=%s",
             LogValue(status.ToString()));
  }
  // What was added meanwhile is newer.
  changes.merge(pending_);
  for (auto& [key, value] : pending_) changes[key] = std::move(value);
  pending_ = std::move(changes);
  ++failures_;
  failure_ = absl::UnavailableError(
      absl::StrCat("the coordinator's state cannot be written: ", status.ToString()));
  return failure_;
}

}  // namespace sangam
