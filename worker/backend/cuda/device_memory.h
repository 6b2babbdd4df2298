#ifndef SANGAM_WORKER_BACKEND_CUDA_DEVICE_MEMORY_H_
#define SANGAM_WORKER_BACKEND_CUDA_DEVICE_MEMORY_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace sangam {

// Memory of a device, or memory of the host that the device reads and writes by itself. Freed with
// the object, when nothing uses it any more.
template <typename Kind>
class CudaBuffer {
 public:
  CudaBuffer() = default;
  // On the current device; not cleared; `bytes` may be 0. Errors: ResourceExhausted  says how much
  // there is
  static absl::StatusOr<CudaBuffer> Allocate(int64_t bytes);

  CudaBuffer(CudaBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  CudaBuffer& operator=(CudaBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~CudaBuffer();

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  CudaBuffer(void* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

struct OnDevice {};
struct OnHost {};
using DeviceBuffer = CudaBuffer<OnDevice>;
using PinnedBuffer = CudaBuffer<OnHost>;

// How many buffers of both kinds this process has made: a step makes none once its shapes are
// known.
int64_t NumCudaAllocations();

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_DEVICE_MEMORY_H_
