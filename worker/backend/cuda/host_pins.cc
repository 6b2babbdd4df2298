#include "worker/backend/cuda/host_pins.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/cuda_status.h"

namespace sangam {
namespace {

// A FloatBuffer from this size on has its pages for itself.
constexpr int64_t kMinPinnedBytes =
    static_cast<int64_t>(FloatBuffer::kOwnPagesElements * sizeof(float));

// Begin and size of what is pinned.
using Range = std::pair<void*, int64_t>;

struct Pins {
  int64_t count = 0;
  int device = 0;  // whose lane had it first
};

// Of the process, as the driver's own list is.
class Registry {
 public:
  absl::Status Add(const Range& range) {
    const MutexLock lock(&mutex_);
    Pins& pins = pins_[range];
    if (pins.count == 0) {
      cudaError_t error = cudaGetDevice(&pins.device);
      if (error == cudaSuccess) {
        error = cudaHostRegister(range.first, static_cast<size_t>(range.second),
                                 cudaHostRegisterPortable);
      }
      if (error != cudaSuccess) pins_.erase(range);
      if (error == cudaErrorHostMemoryAlreadyRegistered) {
        cudaGetLastError();
        return absl::AlreadyExistsError("pinned by somebody else");
      }
      RETURN_IF_ERROR(CudaStatus(error, "pinning host memory"));
    }
    ++pins.count;
    return absl::OkStatus();
  }

  // What this may say is of no use to anybody any more.
  void Remove(const Range& range) {
    const MutexLock lock(&mutex_);
    const auto found = pins_.find(range);
    if (--found->second.count > 0) return;
    // The thread may have no device yet: it would get number 0, which is started for that.
    cudaSetDevice(found->second.device);
    pins_.erase(found);
    cudaHostUnregister(range.first);
    cudaGetLastError();
  }

 private:
  Mutex mutex_;
  std::map<Range, Pins> pins_ ABSL_GUARDED_BY(mutex_);
};

Registry& TheRegistry() {
  static auto* const registry = new Registry;
  return *registry;
}

class Pin : public HostPin {
 public:
  explicit Pin(const Range& range) : range_(range) {}
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  ~Pin() override { TheRegistry().Remove(range_); }

 private:
  Range range_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostPin>> PinHostMemory(void* host, int64_t bytes) {
  // The driver locks whole pages, and what shares one with a neighbour could be half locked, which
  // a copy refuses. The smallest are left as they are.
  if (bytes < kMinPinnedBytes) return std::make_unique<HostPin>();
  const Range range = {host, bytes};
  const absl::Status added = TheRegistry().Add(range);
  if (absl::IsAlreadyExists(added)) return std::make_unique<HostPin>();
  if (!added.ok()) return added;
  return std::make_unique<Pin>(range);
}

}  // namespace sangam
