// The functions of the API about streams and events.

#include <chrono>
#include <memory>
#include <mutex>
#include <set>

#include "tests/cuda_on_cpu/errors.h"
#include "tests/cuda_on_cpu/include/cuda_runtime_api.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/streams.h"

namespace cuda_on_cpu {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// One recording of an event.
struct Recording {
  Position position;
  TimePoint time;  // set by the stream, so valid when the position is done
  // If a captured stream recorded it.
  std::shared_ptr<Capture> capture;
  Known known;
};

}  // namespace
}  // namespace cuda_on_cpu

struct CUevent_st {
  unsigned flags = 0;
  std::shared_ptr<cuda_on_cpu::Recording> recording;  // the last one
};

namespace cuda_on_cpu {
namespace {

std::mutex mutex;
// Protected by `mutex`, as is the recording of each.
std::set<cudaEvent_t>& events = *new std::set<cudaEvent_t>;

cudaError_t LastRecording(cudaEvent_t event, std::shared_ptr<Recording>* recording) {
  std::lock_guard<std::mutex> lock(mutex);
  if (events.count(event) == 0) return cudaErrorInvalidResourceHandle;
  *recording = event->recording;
  return cudaSuccess;
}

cudaError_t RecordEvent(cudaEvent_t event, cudaStream_t stream) {
  cudaError_t error = Ready();
  if (error != cudaSuccess) return error;
  std::shared_ptr<Recording> recording;
  error = LastRecording(event, &recording);
  if (error != cudaSuccess) return error;
  recording = std::make_shared<Recording>();
  error = Streams::Get().FindCapture(stream, &recording->capture);
  if (error != cudaSuccess) return error;
  if (recording->capture != nullptr) {
    error = Streams::Get().CapturedSoFar(stream, &recording->known);
  } else {
    std::weak_ptr<Recording> weak = recording;
    error = Streams::Get().Put(stream,
                               {"cudaEventRecord",
                                [weak] {
                                  if (auto own = weak.lock()) {
                                    own->time = std::chrono::steady_clock::now();
                                  }
                                },
                                true},
                               &recording->position);
  }
  if (error != cudaSuccess) return error;
  std::lock_guard<std::mutex> lock(mutex);
  if (events.count(event) == 0) return cudaErrorInvalidResourceHandle;
  event->recording = std::move(recording);
  return cudaSuccess;
}

// An event that was never recorded is as good as done.
cudaError_t DonePosition(cudaEvent_t event, Position* position) {
  cudaError_t error = Ready();
  if (error != cudaSuccess) return error;
  std::shared_ptr<Recording> recording;
  error = LastRecording(event, &recording);
  if (error != cudaSuccess || recording == nullptr) return error;
  if (recording->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  *position = recording->position;
  return cudaSuccess;
}

cudaError_t WaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  cudaError_t error = Ready();
  if (error != cudaSuccess) return error;
  if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
  std::shared_ptr<Recording> recording;
  error = LastRecording(event, &recording);
  if (error != cudaSuccess) return error;
  if (recording == nullptr) return cudaSuccess;
  if (recording->capture != nullptr) {
    return Streams::Get().JoinCapture(stream, recording->capture, recording->known);
  }
  return Streams::Get().PutWait(stream, recording->position);
}

cudaError_t Elapsed(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  cudaError_t error = Ready();
  if (error != cudaSuccess) return error;
  if (milliseconds == nullptr) return cudaErrorInvalidValue;
  TimePoint times[2];
  const cudaEvent_t both[2] = {start, end};
  for (int i = 0; i < 2; ++i) {
    std::shared_ptr<Recording> recording;
    error = LastRecording(both[i], &recording);
    if (error != cudaSuccess) return error;
    if (recording == nullptr || recording->capture != nullptr ||
        (both[i]->flags & cudaEventDisableTiming) != 0) {
      return cudaErrorInvalidResourceHandle;
    }
    error = Streams::Get().Query(recording->position);
    if (error != cudaSuccess) return error;
    times[i] = recording->time;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(times[1] - times[0]).count();
  return cudaSuccess;
}

cudaError_t StreamEnd(cudaStream_t stream, Position* end) {
  const cudaError_t error = Ready();
  return error != cudaSuccess ? error : Streams::Get().End(stream, end);
}

}  // namespace
}  // namespace cuda_on_cpu

using cuda_on_cpu::DeviceMemory;
using cuda_on_cpu::Position;
using cuda_on_cpu::Ready;
using cuda_on_cpu::ReadyOnDevice;
using cuda_on_cpu::Return;
using cuda_on_cpu::Streams;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  if (ReadyOnDevice() != cudaSuccess) return Return(ReadyOnDevice());
  return Return(Streams::Get().Create(stream, flags, priority));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (Ready() != cudaSuccess) return Return(Ready());
  return Return(Streams::Get().Destroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Position end;
  cudaError_t error = cuda_on_cpu::StreamEnd(stream, &end);
  if (error != cudaSuccess) return Return(error);
  error = Streams::Get().WaitFor(end);
  DeviceMemory::Get().CheckEdges();
  return Return(error);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Position end;
  const cudaError_t error = cuda_on_cpu::StreamEnd(stream, &end);
  return Return(error != cudaSuccess ? error : Streams::Get().Query(end));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return Return(cuda_on_cpu::WaitEvent(stream, event, flags));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (Ready() != cudaSuccess) return Return(Ready());
  if (function == nullptr) return Return(cudaErrorInvalidValue);
  Position position;
  const cudaError_t error = Streams::Get().Put(
      stream, {"cudaLaunchHostFunc", [function, data] { function(data); }, true}, &position);
  if (position.queue != nullptr) Streams::Get().Promise(position);
  return Return(error);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if (ReadyOnDevice() != cudaSuccess) return Return(ReadyOnDevice());
  const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming;
  if (event == nullptr || (flags & ~known) != 0) return Return(cudaErrorInvalidValue);
  auto* created = new CUevent_st;
  created->flags = flags;
  std::lock_guard<std::mutex> lock(cuda_on_cpu::mutex);
  cuda_on_cpu::events.insert(created);
  *event = created;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (Ready() != cudaSuccess) return Return(Ready());
  std::lock_guard<std::mutex> lock(cuda_on_cpu::mutex);
  if (cuda_on_cpu::events.erase(event) == 0) return Return(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Return(cuda_on_cpu::RecordEvent(event, stream));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Position position;
  const cudaError_t error = cuda_on_cpu::DonePosition(event, &position);
  if (error != cudaSuccess || position.queue == nullptr) return Return(error);
  return Return(Streams::Get().Query(position));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Position position;
  cudaError_t error = cuda_on_cpu::DonePosition(event, &position);
  if (error != cudaSuccess || position.queue == nullptr) return Return(error);
  error = Streams::Get().WaitFor(position);
  DeviceMemory::Get().CheckEdges();
  return Return(error);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Return(cuda_on_cpu::Elapsed(milliseconds, start, end));
}
