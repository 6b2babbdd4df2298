#ifndef SANGAM_SERVER_RUNTIME_RECORD_WRITER_H_
#define SANGAM_SERVER_RUNTIME_RECORD_WRITER_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "server/core/saved_records.h"
#include "server/runtime/job_store.h"

namespace sangam {

// Writes changes in the order in which they were added, many callers' in one transaction: whoever
// waits while nobody writes, writes all that waits. It has no thread of its own. Thread-safe.
//
// When the store cannot be written (a full disk), who waits is told so, and the changes stay here
// for the next one to try. They need no more room than the state itself.
class RecordWriter {
 public:
  // `store` must outlive the writer and is used by it alone.
  explicit RecordWriter(RecordStore* store) : store_(*store) {}

  // Takes changes to be written; never waits for the store. Returns the ticket to wait with.
  uint64_t Add(RecordChanges changes);

  // The newest ticket.
  uint64_t added() const;

  // Waits until everything up to the ticket is written.
  // Errors: Unavailable  the store could not be written; has its message
  absl::Status Await(uint64_t ticket);

 private:
  absl::Status WritePending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  RecordStore& store_;
  mutable Mutex mutex_;
  CondVar done_;
  RecordChanges pending_ ABSL_GUARDED_BY(mutex_);
  uint64_t added_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t written_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the last write; how many have failed so far.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_RECORD_WRITER_H_
