#ifndef SANGAM_WORKER_RUNTIME_EVENT_QUEUE_H_
#define SANGAM_WORKER_RUNTIME_EVENT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "worker/backend/backend.h"

namespace sangam {

// Does things when a device has come to them: one thread waits for the events, in the order in
// which they were added, and then does what belongs to each. The first failure is the last thing
// that it does. Thread-safe.
class EventQueue {
 public:
  struct Entry {
    std::shared_ptr<const BackendEvent> event;
    std::function<absl::Status()> action;  // must not wait for those who add
    std::function<std::string()> where;    // in front of the text of a failure
  };

  // At most `max_entries` wait. `on_failure` is called on the thread, at most once.
  EventQueue(size_t max_entries, std::function<void(const absl::Status&)> on_failure);
  // As Stop.
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // Waits while there is no room. The result counts the entries so far.
  // Errors: what an earlier one failed with
  absl::StatusOr<uint64_t> Add(Entry entry);

  // Waits until as many entries are done. Errors: as Add
  absl::Status AwaitDone(uint64_t entries);

  // Waits until all is done, and ends the thread. Errors: as Add
  absl::Status Finish();

  // Ends the thread when it is through with the entry under way; what waits is left undone.
  void Stop();

 private:
  void Work();
  void End(bool at_once);

  const size_t max_entries_;
  const std::function<void(const absl::Status&)> on_failure_;
  Mutex mutex_;
  CondVar changed_;
  // The first one is under way.
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t added_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;   // when all is done
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;  // before that
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the above
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_EVENT_QUEUE_H_
