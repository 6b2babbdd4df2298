#include "tests/cuda_on_cpu/streams.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "tests/cuda_on_cpu/errors.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/options.h"

namespace cuda_on_cpu {
namespace {

// As many launches fit into a stream of a real device.
constexpr size_t kMaxPending = 1024;

constexpr std::chrono::milliseconds kPromiseDelay(5);

bool IsDone(const Position& position) { return position.queue->done >= position.sequence; }

bool IsDefault(cudaStream_t stream) { return stream == nullptr || stream == cudaStreamLegacy; }

}  // namespace

Streams::Streams() { queues_.push_back(default_queue_); }

Streams& Streams::Get() {
  static Streams* const kStreams = new Streams;
  return *kStreams;
}

cudaError_t Streams::Create(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return cudaErrorInvalidValue;
  }
  auto* created = new CUstream_st;
  created->queue->blocking = (flags & cudaStreamNonBlocking) == 0;
  created->priority = priority;
  Lock lock(mutex_);
  streams_.insert(created);
  queues_.push_back(created->queue);
  *stream = created;
  return cudaSuccess;
}

cudaError_t Streams::Destroy(cudaStream_t stream) {
  Lock lock(mutex_);
  if (streams_.erase(stream) == 0) return cudaErrorInvalidResourceHandle;
  // WaitForAll still finds the queue, until it is empty.
  if (stream->queue->capture != nullptr) stream->queue->capture->spoilt = true;
  if (stream->queue->done == stream->queue->put) {
    queues_.erase(std::find(queues_.begin(), queues_.end(), stream->queue));
  }
  delete stream;
  return cudaSuccess;
}

std::shared_ptr<Queue> Streams::Find(cudaStream_t stream) {
  if (IsDefault(stream)) return default_queue_;
  return streams_.count(stream) != 0 ? stream->queue : nullptr;
}

cudaError_t Streams::Put(cudaStream_t stream, Operation operation, Position* position) {
  Lock lock(mutex_);
  return Append(&lock, stream, std::move(operation), {}, position);
}

cudaError_t Streams::PutWait(cudaStream_t stream, Position position) {
  Lock lock(mutex_);
  return Append(&lock, stream, {"cudaStreamWaitEvent", [] {}, true}, {std::move(position)},
                nullptr);
}

cudaError_t Streams::Append(Lock* lock, cudaStream_t stream, Operation operation,
                            std::vector<Position> needs, Position* position) {
  const std::shared_ptr<Queue> queue = Find(stream);
  if (queue == nullptr) return cudaErrorInvalidResourceHandle;
  if (queue->capture != nullptr) {
    Capture& capture = *queue->capture;
    if (capture.spoilt) return cudaErrorStreamCaptureInvalidated;
    // An event of work that the graph does not contain.
    if (!needs.empty()) {
      capture.spoilt = true;
      return cudaErrorStreamCaptureIsolation;
    }
    capture.operations.push_back(std::move(operation));
    capture.known[queue.get()][queue.get()] = ++capture.counts[queue.get()];
    return cudaSuccess;
  }
  if (IsDefault(stream)) {
    for (const auto& capture : captures_) {
      if (capture->mode != cudaStreamCaptureModeGlobal || !capture->origin->blocking) continue;
      capture->spoilt = true;
      return cudaErrorStreamCaptureImplicit;
    }
  }
  AddDefaultStreamNeeds(queue, &needs);
  while (queue->put - queue->done >= kMaxPending) RunUntil(lock, queue, queue->done + 1);
  queue->entries.push_back({std::move(operation), std::move(needs)});
  ++queue->put;
  if (position != nullptr) *position = {queue, queue->put};
  switch (options().streams) {
    case StreamMode::kLazy:
      break;
    case StreamMode::kEager:
      RunUntil(lock, queue, queue->put);
      break;
    case StreamMode::kRandom:
      RunSome(lock);
      break;
  }
  return cudaSuccess;
}

void Streams::AddDefaultStreamNeeds(const std::shared_ptr<Queue>& queue,
                                    std::vector<Position>* needs) {
  if (!queue->blocking) return;
  for (const auto& other : queues_) {
    const bool related = queue == default_queue_ ? other->blocking : other == default_queue_;
    if (other == queue || !related || other->done == other->put) continue;
    needs->push_back({other, other->put});
  }
}

cudaError_t Streams::End(cudaStream_t stream, Position* position) {
  Lock lock(mutex_);
  const std::shared_ptr<Queue> queue = Find(stream);
  if (queue == nullptr) return cudaErrorInvalidResourceHandle;
  if (queue->capture != nullptr) {
    queue->capture->spoilt = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  *position = {queue, queue->put};
  return cudaSuccess;
}

cudaError_t Streams::WaitFor(const Position& position) {
  Lock lock(mutex_);
  RunUntil(&lock, position.queue, position.sequence);
  return DeviceError();
}

cudaError_t Streams::Query(const Position& position) {
  Lock lock(mutex_);
  if (!IsDone(position) && !position.queue->busy) Step(&lock, position.queue);
  if (!IsDone(position)) return cudaErrorNotReady;
  return DeviceError();
}

cudaError_t Streams::WaitForAll() {
  Lock lock(mutex_);
  const auto queues = queues_;
  std::vector<Position> ends;
  ends.reserve(queues.size());
  for (const auto& queue : queues) ends.push_back({queue, queue->put});
  for (const Position& end : ends) RunUntil(&lock, end.queue, end.sequence);
  return DeviceError();
}

void Streams::RunUntil(Lock* lock, const std::shared_ptr<Queue>& queue, uint64_t sequence) {
  while (queue->done < sequence) Step(lock, queue);
}

// What the next operation of the queue needs comes first. Such a chain visits each stream once at
// most: a stream that is waited for again is waited for at an earlier place, which is done.
void Streams::Step(Lock* lock, std::shared_ptr<Queue> queue) {
  for (;;) {
    if (queue->busy) {
      changed_.wait(*lock);
      return;
    }
    const auto& needs = queue->entries.front().needs;
    const auto unmet = std::find_if_not(needs.begin(), needs.end(), IsDone);
    if (unmet == needs.end()) break;
    queue = unmet->queue;
  }
  const Operation operation = std::move(queue->entries.front().operation);
  queue->entries.pop_front();
  queue->busy = true;
  lock->unlock();
  RunOperation(operation);
  lock->lock();
  queue->busy = false;
  ++queue->done;
  changed_.notify_all();
}

// Between nothing and all, in any order that the streams allow.
void Streams::RunSome(Lock* lock) {
  if (seed_ != options().streams_seed) {
    seed_ = options().streams_seed;
    random_.seed(seed_);
  }
  for (uint64_t steps = random_() % 4; steps > 0; --steps) {
    const auto queue = queues_[random_() % queues_.size()];
    if (queue->done != queue->put && !queue->busy) Step(lock, queue);
  }
}

void Streams::Promise(Position position) {
  Lock lock(mutex_);
  promised_.push_back(std::move(position));
  changed_.notify_all();
  if (keeps_promises_) return;
  keeps_promises_ = true;
  // Lives as long as the process, as the streams do.
  std::thread([this] { KeepPromises(); }).detach();
}

void Streams::KeepPromises() {
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !promised_.empty(); });
    const Position position = std::move(promised_.front());
    promised_.pop_front();
    // Long enough that whoever reads the result without waiting reads garbage.
    lock.unlock();
    std::this_thread::sleep_for(kPromiseDelay);
    lock.lock();
    RunUntil(&lock, position.queue, position.sequence);
  }
}

size_t Streams::pending() {
  Lock lock(mutex_);
  size_t count = 0;
  for (const auto& queue : queues_) count += queue->put - queue->done;
  return count;
}

void Streams::Reset() {
  Lock lock(mutex_);
  for (const auto& queue : queues_) {
    changed_.wait(lock, [&] { return !queue->busy; });
    queue->entries.clear();
    queue->done = queue->put;
    queue->capture = nullptr;
  }
  captures_.clear();
  for (cudaStream_t stream : streams_) delete stream;
  streams_.clear();
  queues_ = {default_queue_};
  changed_.notify_all();
}

cudaError_t Streams::FindCapture(cudaStream_t stream, std::shared_ptr<Capture>* capture) {
  Lock lock(mutex_);
  const std::shared_ptr<Queue> queue = Find(stream);
  if (queue == nullptr) return cudaErrorInvalidResourceHandle;
  *capture = queue->capture;
  return cudaSuccess;
}

cudaError_t Streams::BeginCapture(cudaStream_t stream, std::shared_ptr<Capture> capture) {
  Lock lock(mutex_);
  // The default stream cannot be captured.
  if (IsDefault(stream)) return cudaErrorStreamCaptureUnsupported;
  const std::shared_ptr<Queue> queue = Find(stream);
  if (queue == nullptr) return cudaErrorInvalidResourceHandle;
  if (queue->capture != nullptr) return cudaErrorIllegalState;
  capture->origin = queue.get();
  queue->capture = capture;
  captures_.insert(std::move(capture));
  return cudaSuccess;
}

cudaError_t Streams::EndCapture(cudaStream_t stream, std::vector<Operation>* operations) {
  Lock lock(mutex_);
  const std::shared_ptr<Queue> queue = Find(stream);
  if (queue == nullptr) return cudaErrorInvalidResourceHandle;
  const std::shared_ptr<Capture> capture = queue->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  if (capture->origin != queue.get()) {
    capture->spoilt = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  Release(capture);
  if (capture->spoilt) return cudaErrorStreamCaptureInvalidated;
  // Everything that other streams did for the graph must be known to be done at its end.
  const Known& known = capture->known[queue.get()];
  for (const auto& [other, count] : capture->counts) {
    const auto found = known.find(other);
    if (found == known.end() || found->second < count) return cudaErrorStreamCaptureUnjoined;
  }
  *operations = std::move(capture->operations);
  return cudaSuccess;
}

void Streams::Release(const std::shared_ptr<Capture>& capture) {
  captures_.erase(capture);
  for (const auto& queue : queues_) {
    if (queue->capture == capture) queue->capture = nullptr;
  }
}

cudaError_t Streams::CapturedSoFar(cudaStream_t stream, Known* known) {
  Lock lock(mutex_);
  const std::shared_ptr<Queue> queue = Find(stream);
  if (queue == nullptr || queue->capture == nullptr) return cudaErrorInvalidResourceHandle;
  *known = queue->capture->known[queue.get()];
  return cudaSuccess;
}

cudaError_t Streams::JoinCapture(cudaStream_t stream, const std::shared_ptr<Capture>& capture,
                                 const Known& known) {
  Lock lock(mutex_);
  const std::shared_ptr<Queue> queue = Find(stream);
  if (queue == nullptr) return cudaErrorInvalidResourceHandle;
  // The event of a capture that is over, or a stream that belongs to another one.
  if (captures_.count(capture) == 0) return cudaErrorIllegalState;
  if (queue->capture != nullptr && queue->capture != capture) {
    capture->spoilt = true;
    queue->capture->spoilt = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (IsDefault(stream)) {
    capture->spoilt = true;
    return cudaErrorStreamCaptureImplicit;
  }
  queue->capture = capture;
  Known& own = capture->known[queue.get()];
  for (const auto& [other, count] : known) own[other] = std::max(own[other], count);
  return cudaSuccess;
}

cudaError_t Streams::CheckNoCapture() {
  Lock lock(mutex_);
  for (const auto& capture : captures_) {
    const bool concerned = capture->mode == cudaStreamCaptureModeGlobal ||
                           (capture->mode == cudaStreamCaptureModeThreadLocal &&
                            capture->thread == std::this_thread::get_id());
    if (!concerned) continue;
    capture->spoilt = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

size_t PendingOperations() { return Streams::Get().pending(); }

}  // namespace cuda_on_cpu
