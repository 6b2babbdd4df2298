#include "worker/data/prefetcher.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
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

namespace sangam {
namespace {

absl::Status Stopped() { return absl::CancelledError("the prefetcher was stopped"); }

}  // namespace

Prefetcher::Batch& Prefetcher::Batch::operator=(Batch&& other) noexcept {
  if (this == &other) return *this;
  Release();
  owner_ = std::exchange(other.owner_, nullptr);
  lane_ = other.lane_;
  slot_ = other.slot_;
  inputs_ = std::exchange(other.inputs_, nullptr);
  labels_ = std::exchange(other.labels_, nullptr);
  rows_ = std::exchange(other.rows_, 0);
  tag_ = other.tag_;
  return *this;
}

void Prefetcher::Batch::Release() {
  if (owner_ != nullptr) std::exchange(owner_, nullptr)->Return(lane_, slot_);
}

uint64_t Prefetcher::MemoryBytes(const Options& options) {
  return options.lanes * (options.depth + options.held) * options.max_rows *
         (options.row_elements * sizeof(float) + sizeof(uint32_t));
}

Prefetcher::Prefetcher(const Options& options, Source source)
    : options_(options), source_(std::move(source)), lanes_(options.lanes) {}

absl::StatusOr<std::unique_ptr<Prefetcher>> Prefetcher::Start(const Options& options,
                                                              Source source) {
  SANGAM_CHECK(options.lanes >= 1 && options.depth >= 1 && options.held >= 1);
  std::unique_ptr<Prefetcher> prefetcher(new Prefetcher(options, std::move(source)));
  {
    MutexLock lock(&prefetcher->mutex_);
    for (Lane& lane : prefetcher->lanes_) {
      for (size_t s = 0; s < options.depth + options.held; ++s) {
        Slot slot;
        ASSIGN_OR_RETURN(slot.inputs,
                         FloatBuffer::Allocate(options.max_rows * options.row_elements));
        slot.labels.resize(options.max_rows);
        lane.slots.push_back(std::move(slot));
        lane.free.push_back(s);
      }
    }
  }
  prefetcher->thread_ = std::thread([raw = prefetcher.get()] { raw->Work(); });
  return prefetcher;
}

Prefetcher::~Prefetcher() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  room_.SignalAll();
  filled_.SignalAll();
}

bool Prefetcher::stopped() {
  MutexLock lock(&mutex_);
  return stopped_;
}

std::optional<size_t> Prefetcher::PickLane() const {
  std::optional<size_t> picked;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    if (lane.ended || lane.free.empty() || lane.ready.size() >= options_.depth) continue;
    if (!picked.has_value() || lane.ready.size() < lanes_[*picked].ready.size()) picked = l;
  }
  return picked;
}

void Prefetcher::Work() {
  for (;;) {
    size_t lane_index = 0;
    size_t slot_index = 0;
    Slot* slot = nullptr;
    {
      MutexLock lock(&mutex_);
      std::optional<size_t> picked;
      while (!stopped_ && !(picked = PickLane()).has_value()) {
        room_.WaitFor(&mutex_, absl::Hours(1));
      }
      if (stopped_) return;
      lane_index = *picked;
      Lane& lane = lanes_[lane_index];
      slot_index = lane.free.back();
      lane.free.pop_back();
      slot = &lane.slots[slot_index];
    }
    const std::optional<SampleRun> run = source_(lane_index);
    const absl::Status status =
        run.has_value()
            ? Fill(*run, slot)
            : absl::OutOfRangeError(absl::StrCat("lane ", lane_index, " has no more samples"));
    MutexLock lock(&mutex_);
    Lane& lane = lanes_[lane_index];
    if (status.ok()) {
      lane.ready.push_back(slot_index);
    } else {
      lane.free.push_back(slot_index);
      lane.ended = true;
      lane.end = status;
    }
    filled_.SignalAll();
  }
}

absl::Status Prefetcher::Fill(const SampleRun& run, Slot* slot) {
  if (run.count > options_.max_rows || run.dataset->sample_elements() != options_.row_elements) {
    return absl::InternalError(absl::StrCat(
        "a run of ", run.count, " samples of ", run.dataset->sample_elements(),
        " elements, expected at most ", options_.max_rows, " of ", options_.row_elements));
  }
  for (uint64_t r = 0; r < run.count; ++r) {
    if (stopped()) return Stopped();
    const uint64_t sample = run.order.SampleAt(run.first + r);
    RETURN_IF_ERROR(run.dataset->Read(sample, slot->inputs.data() + r * options_.row_elements,
                                      &slot->labels[r]));
  }
  slot->rows = run.count;
  slot->tag = run.tag;
  return absl::OkStatus();
}

absl::StatusOr<Prefetcher::Batch> Prefetcher::Take(size_t lane_index, absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real().Steady() + timeout;
  MutexLock lock(&mutex_);
  SANGAM_CHECK(lane_index < lanes_.size());
  Lane& lane = lanes_[lane_index];
  while (lane.ready.empty()) {
    if (stopped_) return Stopped();
    if (lane.ended) return lane.end;
    const absl::Duration left = deadline - Clock::Real().Steady();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat("lane ", lane_index,
                                                      ": the next micro-batch was not prepared in ",
                                                      absl::FormatDuration(timeout)));
    }
    filled_.WaitFor(&mutex_, left);
  }
  if (stopped_) return Stopped();
  Batch batch;
  batch.owner_ = this;
  batch.lane_ = lane_index;
  batch.slot_ = lane.ready.front();
  lane.ready.pop_front();
  const Slot& slot = lane.slots[batch.slot_];
  batch.inputs_ = slot.inputs.data();
  batch.labels_ = slot.labels.data();
  batch.rows_ = slot.rows;
  batch.tag_ = slot.tag;
  room_.Signal();
  return batch;
}

void Prefetcher::Return(size_t lane, size_t slot) {
  MutexLock lock(&mutex_);
  lanes_[lane].free.push_back(slot);
  room_.Signal();
}

}  // namespace sangam
