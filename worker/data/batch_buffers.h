#ifndef SANGAM_WORKER_DATA_BATCH_BUFFERS_H_
#define SANGAM_WORKER_DATA_BATCH_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/tensor/buffer.h"
#include "worker/data/batch_source.h"

namespace sangam {

// The memory of a batch source: a fixed number of buffers for each lane that go round, from free to
// being filled, to ready (in the order in which their filling began), to on loan, to free.
// Thread-safe.
class BatchBuffers {
 public:
  // A buffer that its holder alone may write.
  struct Target {
    size_t lane = 0;
    size_t slot = 0;
    float* inputs = nullptr;     // max_rows * input_elements; nullptr when not wanted
    uint32_t* labels = nullptr;  // max_rows * labels_per_sample; nullptr when not wanted
  };

  // REQUIRES: lanes, ahead and held are at least 1.
  // Errors: ResourceExhausted  the memory cannot be had
  static absl::StatusOr<std::unique_ptr<BatchBuffers>> Allocate(const BatchOptions& options);
  ~BatchBuffers();

  const BatchOptions& options() const { return options_; }

  // Waits for a free buffer of a lane that has not ended, of the lane that has the fewest batches
  // in hand; nothing: stopped. Each is to be given back by Filled or End.
  std::optional<Target> WaitForFree();

  // The buffer holds `rows` samples. Buffers of one lane are filled in the order of WaitForFree.
  void Filled(const Target& target, const BatchId& id, uint64_t rows);

  // The buffer comes back unused, because nothing comes to its lane after what is filled or being
  // filled now; `why` is what Take says then. Only the first End of a lane counts.
  void End(const Target& target, const absl::Status& why);
  // Ends all lanes at once: what is being filled will not be ready.
  void Fail(const absl::Status& why);

  // BatchSource.
  absl::StatusOr<Batch> Take(size_t lane, absl::Duration timeout);
  void Stop();
  bool stopped();

  // Whether any buffer is being filled.
  bool filling();

 private:
  struct Slot {
    FloatBuffer inputs;
    std::vector<uint32_t> labels;
    BatchId id;
    uint64_t rows = 0;
  };
  struct Lane {
    std::vector<Slot> slots;   // the vector itself never changes; a slot has one user at a time
    std::vector<size_t> free;  // slots that may be filled
    size_t filling = 0;
    std::deque<size_t> ready;  // filled slots, oldest first
    bool ended = false;        // nothing will come after these
    bool failed = false;       // nor will those that are being filled
    absl::Status end;          // why
  };

  explicit BatchBuffers(const BatchOptions& options) : options_(options) {}
  std::optional<size_t> PickLane() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Return(size_t lane, size_t slot);

  const BatchOptions options_;
  Mutex mutex_;
  CondVar room_;    // a slot became free
  CondVar filled_;  // a lane got a batch or its end
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Lane> lanes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_DATA_BATCH_BUFFERS_H_
