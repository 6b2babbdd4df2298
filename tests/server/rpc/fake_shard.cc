#include "tests/server/rpc/fake_shard.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

absl::Status FakeShard::CheckHello(const v1::FrameHeader& /*header*/,
                                   const v1::StreamHello& /*hello*/) {
  return absl::OkStatus();
}

absl::Status FakeShard::Subscribe(const v1::FrameHeader& /*header*/,
                                  const std::shared_ptr<WeightsSink>& sink) {
  MutexLock lock(&mutex_);
  sinks_.push_back(sink);
  changed_.SignalAll();
  return absl::OkStatus();
}

void FakeShard::Unsubscribe(const WeightsSink* sink) {
  MutexLock lock(&mutex_);
  sinks_.erase(std::remove_if(sinks_.begin(), sinks_.end(),
                              [sink](const auto& other) { return other.get() == sink; }),
               sinks_.end());
  changed_.SignalAll();
}

absl::Status FakeShard::AddGradient(const v1::FrameHeader& /*header*/,
                                    const SlicePayload& elements) {
  MutexLock lock(&mutex_);
  gradients_.push_back(elements);
  changed_.SignalAll();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PageWeights>> FakeShard::ReadState(uint64_t step) {
  MutexLock lock(&mutex_);
  if (step != state_step_) return absl::NotFoundError("no such snapshot");
  return pages_;
}

void FakeShard::ReleaseState(uint64_t step) {
  MutexLock lock(&mutex_);
  if (step == state_step_) state_step_ = 0;
  changed_.SignalAll();
}

void FakeShard::SetStateStep(uint64_t step) {
  MutexLock lock(&mutex_);
  state_step_ = step;
}

bool FakeShard::WaitForRelease() {
  return Wait([this] { return state_step_ == 0; });
}

std::vector<PageWeights> FakeShard::ReadWeights() {
  MutexLock lock(&mutex_);
  ++num_reads_;
  changed_.SignalAll();
  return pages_;
}

void FakeShard::Publish(const PageWeights& weights) {
  for (const std::shared_ptr<WeightsSink>& sink : subscribers()) sink->Send(weights);
}

void FakeShard::SetPages(std::vector<PageWeights> pages) {
  MutexLock lock(&mutex_);
  pages_ = std::move(pages);
}

bool FakeShard::Wait(const std::function<bool()>& condition) {
  const absl::Duration until = Clock::Real().Steady() + absl::Seconds(30);
  MutexLock lock(&mutex_);
  while (!condition()) {
    const absl::Duration left = until - Clock::Real().Steady();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitFor(&mutex_, left);
  }
  return true;
}

bool FakeShard::WaitForSubscribers(size_t count) {
  return Wait([this, count]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return sinks_.size() == count; });
}

bool FakeShard::WaitForGradients(size_t count) {
  return Wait([this, count]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return gradients_.size() >= count; });
}

bool FakeShard::WaitForReads(size_t count) {
  return Wait([this, count]()
                  ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return num_reads_ >= count; });
}

std::vector<SlicePayload> FakeShard::gradients() {
  MutexLock lock(&mutex_);
  return gradients_;
}

std::vector<std::shared_ptr<WeightsSink>> FakeShard::subscribers() {
  MutexLock lock(&mutex_);
  return sinks_;
}

PageWeights MakePage(uint32_t segment, uint64_t first_element, uint64_t step,
                     const FloatBuffer& buffer) {
  PageWeights weights;
  weights.header.set_kind(v1::FRAME_KIND_WEIGHTS);
  weights.header.set_encoding(v1::ENCODING_FP32);
  weights.header.set_segment(segment);
  weights.header.set_first_element(first_element);
  weights.header.set_element_count(buffer.size());
  weights.header.set_step(step);
  weights.elements = SlicePayload::FromFloats(buffer, 0, buffer.size());
  return weights;
}

PageWeights MakeCork() { return MakePage(999, 0, 0, FloatBuffer::Allocate(4 << 20).value()); }

}  // namespace sangam
