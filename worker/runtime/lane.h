#ifndef SANGAM_WORKER_RUNTIME_LANE_H_
#define SANGAM_WORKER_RUNTIME_LANE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/tensor/buffer.h"
#include "proto/cluster_service.pb.h"
#include "worker/backend/views.h"
#include "worker/core/instruction.h"
#include "worker/core/step_program.h"
#include "worker/core/timeline.h"
#include "worker/data/prefetcher.h"
#include "worker/layers/block.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/run_latch.h"
#include "worker/runtime/run_reporter.h"

namespace sangam {

// What the lanes of one run share. Everything is borrowed and outlives them.
struct RunParts {
  PreparedJob* job = nullptr;
  Timeline timeline;
  const StepProgram* train = nullptr;
  const StepProgram* evaluate = nullptr;
  const StepProgram* finish = nullptr;
  Prefetcher* prefetcher = nullptr;
  ParameterLink* link = nullptr;
  RunReporter* reporter = nullptr;
  const RunLatch* latch = nullptr;
  // How long nothing may come, of weights or of data, before the lane gives up.
  absl::Duration stall_limit;
};

// Follows the programs of one lane through all rounds: the one switch over instructions. Belongs to
// one thread.
class Lane {
 public:
  Lane(const RunParts& parts, uint32_t index);

  // Goes through the whole timeline.
  // Errors: the first instruction's that failed, with round and instruction in front; Cancelled
  // when
  //         the latch was tripped
  absl::Status Run();

 private:
  // One block's gradient of the share under way.
  struct BlockGradient {
    FloatBuffer sum;
    bool begun = false;  // a micro-batch has been added
  };

  absl::Status RunRound(Round round);
  absl::Status Execute(const Instruction& instruction);
  absl::Status LoadBatch(uint32_t index);
  absl::Status AwaitWeights(uint32_t block);
  absl::Status Forward(uint32_t block);
  absl::Status ComputeLoss();
  absl::Status Backward(uint32_t block, bool input_gradient);
  absl::Status EmitGradient(uint32_t block, uint32_t share);
  absl::Status EndShare(uint32_t share);
  absl::Status Score(uint32_t chunk);

  // The block's segment, or -1.
  int segment(uint32_t block) const { return parts_.job->plan.layout().block(block).segment(); }
  Backend* backend() const { return memory_->backend.get(); }
  // A micro-batch without samples passes through without work.
  bool empty() const { return batch_.rows() == 0; }

  const RunParts& parts_;
  const uint32_t index_;
  LaneMemory* const memory_;

  Round round_;
  PassContext context_;
  Prefetcher::Batch batch_;
  std::vector<const float*> weights_;     // by block; nullptr without parameters
  std::vector<ConstMatrix> outputs_;      // by block, of the micro-batch under way
  ConstMatrix gradient_;                  // with respect to the output of the next block to go back
  std::vector<BlockGradient> gradients_;  // by block
  double share_loss_ = 0;
  uint64_t share_samples_ = 0;
  std::vector<v1::EvaluationChunk> scores_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_LANE_H_
