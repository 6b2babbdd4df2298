#include "worker/data/batch_buffers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/data/batch_source.h"

namespace sangam {
namespace {

absl::Status Stopped() { return absl::CancelledError("the source of batches was stopped"); }

}  // namespace

absl::StatusOr<std::unique_ptr<BatchBuffers>> BatchBuffers::Allocate(const BatchOptions& options) {
  SANGAM_CHECK(options.lanes >= 1 && options.ahead >= 1 && options.held >= 1);
  std::unique_ptr<BatchBuffers> buffers(new BatchBuffers(options));
  MutexLock lock(&buffers->mutex_);
  buffers->lanes_.resize(options.lanes);
  for (Lane& lane : buffers->lanes_) {
    for (size_t s = 0; s < options.ahead + options.held; ++s) {
      Slot slot;
      if (options.input_elements > 0) {
        ASSIGN_OR_RETURN(slot.inputs,
                         FloatBuffer::Allocate(options.max_rows * options.input_elements));
      }
      slot.labels.resize(options.max_rows * options.labels_per_sample);
      lane.slots.push_back(std::move(slot));
      lane.free.push_back(s);
    }
  }
  return buffers;
}

BatchBuffers::~BatchBuffers() = default;

std::optional<size_t> BatchBuffers::PickLane() const {
  std::optional<size_t> picked;
  size_t fewest = 0;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    if (lane.ended || lane.free.empty()) continue;
    const size_t in_hand = lane.filling + lane.ready.size();
    if (picked.has_value() && in_hand >= fewest) continue;
    picked = l;
    fewest = in_hand;
  }
  return picked;
}

std::optional<BatchBuffers::Target> BatchBuffers::WaitForFree() {
  MutexLock lock(&mutex_);
  std::optional<size_t> picked;
  while (!stopped_ && !(picked = PickLane()).has_value()) {
    room_.WaitFor(&mutex_, absl::Hours(1));
  }
  if (stopped_) return std::nullopt;
  Lane& lane = lanes_[*picked];
  Target target;
  target.lane = *picked;
  target.slot = lane.free.back();
  lane.free.pop_back();
  ++lane.filling;
  Slot& slot = lane.slots[target.slot];
  target.inputs = slot.inputs.data();
  target.labels = options_.labels_per_sample > 0 ? slot.labels.data() : nullptr;
  return target;
}

void BatchBuffers::Filled(const Target& target, const BatchId& id, uint64_t rows) {
  MutexLock lock(&mutex_);
  Lane& lane = lanes_[target.lane];
  Slot& slot = lane.slots[target.slot];
  slot.id = id;
  slot.rows = rows;
  --lane.filling;
  lane.ready.push_back(target.slot);
  filled_.SignalAll();
}

void BatchBuffers::End(const Target& target, const absl::Status& why) {
  MutexLock lock(&mutex_);
  Lane& lane = lanes_[target.lane];
  --lane.filling;
  lane.free.push_back(target.slot);
  if (!lane.ended) lane.end = why;
  lane.ended = true;
  filled_.SignalAll();
}

void BatchBuffers::Fail(const absl::Status& why) {
  MutexLock lock(&mutex_);
  for (Lane& lane : lanes_) {
    // A lane that has all it wants does not lose its end.
    if (!lane.ended || lane.filling > 0) lane.end = why;
    lane.ended = true;
    lane.failed = true;
  }
  filled_.SignalAll();
}

absl::StatusOr<Batch> BatchBuffers::Take(size_t lane_index, absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real().Steady() + timeout;
  MutexLock lock(&mutex_);
  SANGAM_CHECK(lane_index < lanes_.size());
  Lane& lane = lanes_[lane_index];
  while (lane.ready.empty()) {
    if (stopped_) return Stopped();
    if (lane.ended && (lane.filling == 0 || lane.failed)) return lane.end;
    const absl::Duration left = deadline - Clock::Real().Steady();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat("lane ", lane_index,
                                                      ": the next micro-batch was not ready in ",
                                                      absl::FormatDuration(timeout)));
    }
    filled_.WaitFor(&mutex_, left);
  }
  if (stopped_) return Stopped();
  const size_t taken = lane.ready.front();
  lane.ready.pop_front();
  const Slot& slot = lane.slots[taken];
  Batch batch;
  batch.id = slot.id;
  batch.rows = slot.rows;
  batch.inputs = slot.inputs.data();
  batch.labels = options_.labels_per_sample > 0 ? slot.labels.data() : nullptr;
  batch.loan = std::shared_ptr<const void>(
      &slot, [this, lane_index, taken](const void*) { Return(lane_index, taken); });
  return batch;
}

void BatchBuffers::Return(size_t lane, size_t slot) {
  MutexLock lock(&mutex_);
  lanes_[lane].free.push_back(slot);
  room_.Signal();
}

void BatchBuffers::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  room_.SignalAll();
  filled_.SignalAll();
}

bool BatchBuffers::stopped() {
  MutexLock lock(&mutex_);
  return stopped_;
}

bool BatchBuffers::filling() {
  MutexLock lock(&mutex_);
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.filling > 0; });
}

}  // namespace sangam
