#ifndef SANGAM_SERVER_RUNTIME_JOB_STORE_H_
#define SANGAM_SERVER_RUNTIME_JOB_STORE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/saved_records.h"

namespace sangam {

// Where a coordinator's records are kept.
class RecordStore {
 public:
  virtual ~RecordStore() = default;

  virtual absl::StatusOr<SavedRecords> Load() = 0;
  // All or nothing, in order with earlier calls.
  virtual absl::Status Write(const RecordChanges& changes) = 0;
};

// Records in an SQLite file, one table: (kind, job, number, part) -> value.
//
// Write-ahead log, synchronous=NORMAL: what Write has returned OK for is there after the process
// was killed, at any moment. A crash of the machine or a power cut may cost the newest
// transactions, never the integrity of the file: the coordinator then finds an earlier state.
//
// Not thread-safe. Errors name the file and have SQLite's message:
//   DataLoss            the file is damaged, or no database
//   FailedPrecondition  it was written by a newer version, or is another program's
//   PermissionDenied    it may not be read or written
//   ResourceExhausted   the disk is full
//   Internal            otherwise
class JobStore final : public RecordStore {
 public:
  // Makes the file when it is missing. The folder must be the caller's alone (StateDir).
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(const std::string& path);
  ~JobStore() override;
  JobStore(const JobStore&) = delete;
  JobStore& operator=(const JobStore&) = delete;

  absl::StatusOr<SavedRecords> Load() override;
  absl::Status Write(const RecordChanges& changes) override;

 private:
  class Database;
  explicit JobStore(std::unique_ptr<Database> database);

  const std::unique_ptr<Database> database_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_JOB_STORE_H_
