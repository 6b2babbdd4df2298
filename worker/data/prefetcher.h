#ifndef SANGAM_WORKER_DATA_PREFETCHER_H_
#define SANGAM_WORKER_DATA_PREFETCHER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/tensor/buffer.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"

namespace sangam {

// Samples that make one micro-batch: positions [first, first + count) of an order of a dataset.
struct SampleRun {
  const Dataset* dataset = nullptr;  // borrowed; must outlive the prefetcher
  Sampler order = Sampler::InOrder(0);
  uint64_t first = 0;
  uint64_t count = 0;  // may be 0
  // Comes back with the batch; means what the owner wants.
  uint64_t tag = 0;
};

// Prepares micro-batches ahead of their use: one thread turns the runs of each lane, in the lane's
// order, into rows of floats and labels. Memory is bounded: every lane has a fixed number of
// buffers, used again and again; a lane that is ahead waits. Thread-safe.
class Prefetcher {
 public:
  struct Options {
    size_t lanes = 1;
    // Batches that are ready before the lane asks.
    size_t depth = 2;
    // Batches that a lane may hold at once.
    size_t held = 1;
    uint64_t max_rows = 0;
    uint64_t row_elements = 0;
  };
  // The next run of a lane; nothing after its last one. Called on the prefetcher's thread only.
  using Source = std::function<std::optional<SampleRun>(size_t lane)>;

  // A prepared micro-batch, on loan until it is destroyed. Must not outlive the prefetcher.
  class Batch {
   public:
    Batch() = default;
    ~Batch() { Release(); }
    Batch(Batch&& other) noexcept { *this = std::move(other); }
    Batch& operator=(Batch&& other) noexcept;

    // rows() x row_elements floats, row-major, and rows() labels.
    const float* inputs() const { return inputs_; }
    const uint32_t* labels() const { return labels_; }
    uint64_t rows() const { return rows_; }
    uint64_t tag() const { return tag_; }

   private:
    friend class Prefetcher;
    void Release();

    Prefetcher* owner_ = nullptr;
    size_t lane_ = 0;
    size_t slot_ = 0;
    const float* inputs_ = nullptr;
    const uint32_t* labels_ = nullptr;
    uint64_t rows_ = 0;
    uint64_t tag_ = 0;
  };

  // Sets the memory aside and starts the thread.
  // Errors: ResourceExhausted  the memory cannot be had
  static absl::StatusOr<std::unique_ptr<Prefetcher>> Start(const Options& options, Source source);
  ~Prefetcher();

  // The lane's next micro-batch. An error of a run comes in its place, and again ever after.
  // Errors: DeadlineExceeded  none was ready within `timeout`
  //         Cancelled         stopped
  //         OutOfRange        the source has no more for this lane
  //         others            Dataset::Read's
  absl::StatusOr<Batch> Take(size_t lane, absl::Duration timeout);

  // Wakes all who wait; the thread ends within a row's time. Batches on loan stay readable.
  void Stop();

  // Memory of the buffers, in bytes.
  static uint64_t MemoryBytes(const Options& options);

 private:
  struct Slot {
    FloatBuffer inputs;
    std::vector<uint32_t> labels;
    uint64_t rows = 0;
    uint64_t tag = 0;
  };
  struct Lane {
    std::vector<Slot> slots;   // the vector itself never changes; a slot has one user at a time
    std::vector<size_t> free;  // slots that may be filled
    std::deque<size_t> ready;  // filled slots, oldest first
    bool ended = false;        // nothing will come after `ready`
    absl::Status end;          // why
  };

  Prefetcher(const Options& options, Source source);
  void Work();
  // Lane to prepare for next: the one with the fewest batches ready.
  std::optional<size_t> PickLane() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Fill(const SampleRun& run, Slot* slot);
  void Return(size_t lane, size_t slot);
  bool stopped();

  const Options options_;
  const Source source_;
  Mutex mutex_;
  CondVar room_;    // a slot became free
  CondVar filled_;  // a lane got a batch or its end
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_DATA_PREFETCHER_H_
