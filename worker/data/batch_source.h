#ifndef SANGAM_WORKER_DATA_BATCH_SOURCE_H_
#define SANGAM_WORKER_DATA_BATCH_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/data/batch_id.h"

namespace sangam {

// A prepared micro-batch, on loan until it is destroyed: then its memory is filled anew. Movable.
// Must not outlive its source.
struct Batch {
  BatchId id;
  uint64_t rows = 0;                 // samples; may be 0
  const float* inputs = nullptr;     // rows x input_elements, row-major; nullptr when not wanted
  const uint32_t* labels = nullptr;  // rows x labels_per_sample; nullptr when not wanted
  std::shared_ptr<const void> loan;
};

// What a worker wants of each sample, and how much memory the source may use.
struct BatchOptions {
  size_t lanes = 1;
  size_t ahead = 2;  // batches that are ready before the lane asks
  size_t held = 1;   // batches that a lane may hold at once
  uint64_t max_rows = 0;
  uint64_t input_elements = 0;     // of one sample; 0: inputs are not wanted
  uint64_t labels_per_sample = 0;  // 0: labels are not wanted
};

// Bytes that a source of these options takes.
uint64_t BatchMemoryBytes(const BatchOptions& options);

// The next batch of a lane; nothing after its last one. Called on one thread of the source.
using BatchSequence = std::function<std::optional<BatchId>(size_t lane)>;

// Prepares each lane's micro-batches ahead of their use, in the order of its sequence. Memory is
// bounded: a lane that is ahead waits. Thread-safe.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // The lane's next micro-batch. An error comes in its place, and again ever after.
  // Errors: DeadlineExceeded  none was ready within `timeout`
  //         Cancelled         stopped
  //         OutOfRange        the sequence has no more for this lane
  //         others            what reading or fetching it gave
  virtual absl::StatusOr<Batch> Take(size_t lane, absl::Duration timeout) = 0;

  // Wakes all who wait. Batches on loan stay readable.
  virtual void Stop() = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_DATA_BATCH_SOURCE_H_
