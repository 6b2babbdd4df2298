#ifndef SANGAM_TESTS_TESTING_LAZY_BACKEND_H_
#define SANGAM_TESTS_TESTING_LAZY_BACKEND_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/precision.h"

namespace sangam::testing {

// A device that is not there: memory of its own, which the host cannot touch, and work that is done
// by the CPU's kernels, but only when somebody waits for it. So a wait that is missing, or a buffer
// that is used again too early, shows as wrong numbers. Thread-safe.
class LazyDevice {
 public:
  // When work is done that nobody waits for.
  enum class Haste {
    kNone,     // never
    kUploads,  // uploads beside the computation at once: as early as they may
    kSome,     // some of everything, chosen by its number
  };

  // Forgets failures and counts.
  void Reset(Haste haste);
  // The operation that is done as number `operation` from now on fails, and the device with it;
  // 0: none does.
  void FailAt(uint64_t operation);
  // Memory of the device in bytes.
  void SetMemory(uint64_t bytes);

  // Operations done since Reset.
  uint64_t done() const;
  // Allocations since Reset that did not fit what their backend had reserved.
  uint64_t beyond_reserve() const;
  // Bytes of all backends.
  uint64_t used() const;
  // Host buffers that are pinned.
  size_t pins() const;
  // Buffers pinned since Reset.
  uint64_t times_pinned() const;

 private:
  friend class LazyBackend;
  friend class LazyEvent;
  friend class LazyMemory;
  friend class LazyPin;
  friend class LazySums;
  friend class LazyWork;

  // The host's side of an allocation, by the address that stands for it.
  struct Allocation {
    ~Allocation();
    float* address = nullptr;  // nothing is mapped here
    size_t bytes = 0;          // that are mapped to nothing
    FloatBuffer real;
  };
  struct Stream;
  struct Point {
    std::shared_ptr<Stream> stream;
    uint64_t number = 0;  // operations of the stream that are to be done
  };
  struct Operation {
    std::function<absl::Status()> run;
    std::vector<Point> after;
    std::vector<std::shared_ptr<Allocation>> memory;
  };
  struct Stream {
    std::deque<Operation> waiting;
    uint64_t asked = 0;
    uint64_t done = 0;
    absl::Status* fault = nullptr;  // of the backend; nullptr when it is gone
  };

  absl::Status Advance(const Point& point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(Stream* stream, const Operation& operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Haste haste_ ABSL_GUARDED_BY(mutex_) = Haste::kNone;
  uint64_t fail_at_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t beyond_reserve_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t times_pinned_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t capacity_ ABSL_GUARDED_BY(mutex_) = uint64_t{1} << 32;
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::map<const float*, std::shared_ptr<Allocation>> allocations_ ABSL_GUARDED_BY(mutex_);
  // Elements, and how often they are pinned.
  std::map<const float*, std::pair<int64_t, int>> pinned_ ABSL_GUARDED_BY(mutex_);
};

// A lane of the device, which must outlive it.
std::unique_ptr<Backend> CreateLazyBackend(LazyDevice* device,
                                           Precision precision = Precision::kFp32);

// The device of the backend "lazy", which every program has that links this.
LazyDevice& TheLazyDevice();

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_LAZY_BACKEND_H_
