#ifndef SANGAM_WORKER_CORE_ACTIVITY_RECORD_H_
#define SANGAM_WORKER_CORE_ACTIVITY_RECORD_H_

#include <cstdint>
#include <vector>

#include "proto/cluster_service.pb.h"
#include "worker/core/instruction.h"

namespace sangam {

// What one lane did: for one traced step event by event, and for all steps the time that each block
// took. Pure and not thread-safe. Times in microseconds.
class ActivityRecord {
 public:
  // `num_blocks`: of the model.
  ActivityRecord(uint32_t lane, uint32_t num_blocks) : lane_(lane), times_(num_blocks) {}

  // The lane has followed an instruction, on a micro-batch of `rows` samples. `begin_us` on the
  // wall clock. Neighbouring events of one kind and micro-batch become one.
  void AddEvent(const Instruction& instruction, uint64_t rows, uint64_t begin_us,
                uint64_t duration_us);

  // Seconds of the forward or backward pass of a block in training.
  void AddTime(const Instruction& instruction, uint64_t rows, double seconds);

  // The events since the last call.
  std::vector<v1::TraceEvent> TakeEvents();

  // Of the blocks that the lane computed.
  std::vector<v1::BlockTime> BlockTimes() const;

 private:
  const uint32_t lane_;
  std::vector<v1::TraceEvent> events_;
  std::vector<v1::BlockTime> times_;  // by block
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_ACTIVITY_RECORD_H_
