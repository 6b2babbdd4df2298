#include "worker/core/activity_record.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "proto/cluster_service.pb.h"
#include "worker/core/instruction.h"

namespace sangam {
namespace {

// Bounds the memory of a step with very many micro-batches and blocks; what comes after is lost.
constexpr size_t kMaxEvents = size_t{1} << 16;

v1::Activity ActivityOf(Op op) {
  switch (op) {
    case Op::kLoadBatch:
      return v1::LOAD;
    case Op::kReceive:
    case Op::kReceiveGradient:
      return v1::RECEIVE;
    case Op::kAwaitWeights:
      return v1::WAIT;
    case Op::kForward:
      return v1::FORWARD;
    case Op::kSend:
    case Op::kSendGradient:
      return v1::SEND;
    case Op::kLoss:
      return v1::LOSS;
    case Op::kBackward:
    case Op::kBackwardInput:
      return v1::BACKWARD;
    case Op::kBackwardWeights:
      return v1::WEIGHT_GRADIENT;
    case Op::kEmitGradient:
      return v1::PUSH;
    case Op::kEndShare:
    case Op::kRelease:
    case Op::kScore:
    case Op::kEndEvaluation:
      break;
  }
  return v1::ACTIVITY_UNSPECIFIED;
}

}  // namespace

void ActivityRecord::AddEvent(const Instruction& instruction, uint64_t rows, uint64_t begin_us,
                              uint64_t duration_us) {
  const v1::Activity activity = ActivityOf(instruction.op);
  const bool of_micro_batch = activity != v1::WAIT && activity != v1::PUSH;
  if (activity == v1::ACTIVITY_UNSPECIFIED || (of_micro_batch && rows == 0)) return;
  if (!events_.empty()) {
    v1::TraceEvent& last = events_.back();
    if (last.activity() == activity && last.micro_batch() == instruction.index) {
      last.set_duration_us(begin_us + duration_us - last.begin_us());
      return;
    }
  }
  if (events_.size() >= kMaxEvents) return;
  v1::TraceEvent event;
  event.set_activity(activity);
  event.set_block(instruction.block);
  event.set_micro_batch(instruction.index);
  event.set_begin_us(begin_us);
  event.set_duration_us(duration_us);
  event.set_lane(lane_);
  events_.push_back(std::move(event));
}

void ActivityRecord::AddTime(const Instruction& instruction, uint64_t rows, double seconds) {
  v1::BlockTime& time = times_[instruction.block];
  switch (instruction.op) {
    case Op::kForward:
      time.set_samples(time.samples() + rows);
      time.set_forward_seconds(time.forward_seconds() + seconds);
      return;
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeights:
      time.set_backward_seconds(time.backward_seconds() + seconds);
      return;
    default:
      return;
  }
}

std::vector<v1::TraceEvent> ActivityRecord::TakeEvents() { return std::exchange(events_, {}); }

std::vector<v1::BlockTime> ActivityRecord::BlockTimes() const {
  std::vector<v1::BlockTime> times;
  for (size_t b = 0; b < times_.size(); ++b) {
    if (times_[b].samples() == 0) continue;
    times.push_back(times_[b]);
    times.back().set_block(static_cast<uint32_t>(b));
  }
  return times;
}

}  // namespace sangam
