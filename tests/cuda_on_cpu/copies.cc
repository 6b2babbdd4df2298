// The functions of the API that copy and fill.

#include <cstring>
#include <memory>
#include <vector>

#include "tests/cuda_on_cpu/errors.h"
#include "tests/cuda_on_cpu/host_memory.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/include/cuda_runtime_api.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/options.h"
#include "tests/cuda_on_cpu/streams.h"

namespace cuda_on_cpu {
namespace {

// Rows of `width` bytes, the first bytes of which are `pitch` apart.
struct Rows {
  const void* start;
  size_t pitch;
  size_t width;
  size_t height;

  size_t bytes() const { return (height - 1) * pitch + width; }
  bool OnDevice() const { return DeviceMemory::Get().Contains(start, bytes()); }
  bool Pinned() const { return PinnedMemory::Get().Contains(start, bytes()); }
};

void Copy(void* to, size_t to_pitch, const Rows& from) {
  const auto* source = static_cast<const char*>(from.start);
  auto* target = static_cast<char*>(to);
  if (to_pitch == from.width && from.pitch == from.width) {
    std::memmove(target, source, from.bytes());
    return;
  }
  for (size_t row = 0; row < from.height; ++row) {
    std::memmove(target + row * to_pitch, source + row * from.pitch, from.width);
  }
}

bool ToDevice(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
}

bool FromDevice(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
}

cudaMemcpyKind Infer(bool from_device, bool to_device) {
  if (from_device) return to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
  return to_device ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost;
}

cudaError_t WaitForStream(cudaStream_t stream) {
  Position end;
  const cudaError_t error = Streams::Get().End(stream, &end);
  return error != cudaSuccess ? error : Streams::Get().WaitFor(end);
}

cudaError_t PutCopy(void* to, size_t to_pitch, Rows from, cudaMemcpyKind kind,
                    cudaStream_t stream) {
  cudaError_t error = ReadyOnDevice();
  if (error != cudaSuccess) return error;
  if (from.width > to_pitch || from.width > from.pitch) return cudaErrorInvalidPitchValue;
  if (from.width == 0 || from.height == 0) return cudaSuccess;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  const Rows target{to, to_pitch, from.width, from.height};
  const bool from_device = from.OnDevice(), to_device = target.OnDevice();
  if (kind == cudaMemcpyDefault) kind = Infer(from_device, to_device);
  if (to == nullptr || from.start == nullptr || kind != Infer(from_device, to_device)) {
    return cudaErrorInvalidValue;
  }

  std::shared_ptr<Capture> capture;
  error = Streams::Get().FindCapture(stream, &capture);
  if (error != cudaSuccess) return error;
  // Between two places of the host nothing ever comes late.
  const bool staged = options().pageable == PageableMode::kStaged || kind == cudaMemcpyHostToHost;
  if (capture == nullptr && staged && !FromDevice(kind) && !from.Pinned()) {
    // What the device cannot reach by itself is copied for it now; the caller may change it at
    // once.
    auto staged = std::make_shared<std::vector<char>>(from.width * from.height);
    Copy(staged->data(), from.width, from);
    const Rows rows{staged->data(), from.width, from.width, from.height};
    return Streams::Get().Put(
        stream, {"cudaMemcpyAsync", [to, to_pitch, rows, staged] { Copy(to, to_pitch, rows); }});
  }
  error = Streams::Get().Put(stream, {"cudaMemcpyAsync", [=] { Copy(to, to_pitch, from); }});
  const bool wait = capture == nullptr && staged && !ToDevice(kind) && !target.Pinned();
  return error == cudaSuccess && wait ? WaitForStream(stream) : error;
}

cudaError_t PutFill(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  const cudaError_t error = ReadyOnDevice();
  if (error != cudaSuccess || bytes == 0) return error;
  if (!DeviceMemory::Get().Contains(pointer, bytes) &&
      !PinnedMemory::Get().Contains(pointer, bytes)) {
    return cudaErrorInvalidValue;
  }
  return Streams::Get().Put(stream,
                            {"cudaMemsetAsync", [=] { std::memset(pointer, value, bytes); }});
}

// Copies without a stream have happened when they return.
cudaError_t CopyNow(void* to, size_t to_pitch, Rows from, cudaMemcpyKind kind) {
  cudaError_t error = Ready();
  if (error == cudaSuccess) error = Streams::Get().CheckNoCapture();
  if (error == cudaSuccess) error = PutCopy(to, to_pitch, from, kind, nullptr);
  return error == cudaSuccess ? WaitForStream(nullptr) : error;
}

}  // namespace
}  // namespace cuda_on_cpu

using cuda_on_cpu::Return;

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return Return(cuda_on_cpu::PutCopy(to, bytes, {from, bytes, bytes, 1}, kind, stream));
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return Return(
      cuda_on_cpu::PutCopy(to, to_pitch, {from, from_pitch, width, height}, kind, stream));
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return Return(cuda_on_cpu::CopyNow(to, bytes, {from, bytes, bytes, 1}, kind));
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind) {
  return Return(cuda_on_cpu::CopyNow(to, to_pitch, {from, from_pitch, width, height}, kind));
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  return Return(cuda_on_cpu::PutFill(pointer, value, bytes, stream));
}

cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  cudaError_t error = cuda_on_cpu::Ready();
  if (error == cudaSuccess) error = cuda_on_cpu::Streams::Get().CheckNoCapture();
  if (error != cudaSuccess) return Return(error);
  return cudaMemsetAsync(pointer, value, bytes, nullptr);
}
