#include "worker/runtime/rehearsal.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/plan/pipeline_layout.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/core/flow_tag.h"
#include "worker/layers/block.h"
#include "worker/layers/loss.h"
#include "worker/layers/pass_context.h"
#include "worker/runtime/lane_memory.h"
#include "worker/runtime/prepared_job.h"

namespace sangam {
namespace {

template <typename Shape>
int64_t Elements(const Shape& shape) {
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) elements *= dimension;
  return static_cast<int64_t>(elements);
}

// One stage of a lane. Matrices lie where those of the first micro-batch in flight do; what is in
// them is never looked at.
class StageRehearsal {
 public:
  StageRehearsal(PreparedJob* job, LaneMemory* lane, uint32_t chunk)
      : job_(*job),
        backend_(lane->backend.get()),
        device_(*lane->device),
        weights_(job->lanes.front().device->weights),
        memory_(lane->stages[chunk]),
        places_(lane->device->slots[chunk].front()),
        rows_(static_cast<int64_t>(job->cut.MaxMicroBatchSize())),
        outputs_(memory_.scratch.size()) {
    const v1::StagePlan& stage =
        job->plan.stage(static_cast<int>(StageOf(job->plan, job->worker, chunk)));
    first_ = stage.first_block();
    end_ = first_ + stage.block_count();
  }

  absl::Status Evaluate() {
    RETURN_IF_ERROR(Forward(/*training=*/false));
    return ends_model() ? ComputeLoss(nullptr) : absl::OkStatus();
  }

  absl::Status Train() {
    RETURN_IF_ERROR(Forward(/*training=*/true));
    if (ends_model()) {
      Matrix gradient{KeptGradient(end_ - 1)->data(), rows_, outputs_.back().cols};
      RETURN_IF_ERROR(ComputeLoss(&gradient));
    }
    ConstMatrix gradient;
    for (uint32_t block = end_; block-- > first_;) {
      const int64_t columns = Elements(layout(block).output_shape());
      if (const BackendMemory* const kept = KeptGradient(block); kept != nullptr) {
        gradient = {kept->data(), rows_, columns};
      } else if (block + 1 == end_) {
        gradient = {Arrival(block, FlowDirection::kBackward), rows_, columns};
      }
      ASSIGN_OR_RETURN(gradient, Backward(block, gradient));
    }
    return absl::OkStatus();
  }

 private:
  const v1::BlockLayout& layout(uint32_t block) const {
    return job_.plan.layout().block(static_cast<int>(block));
  }
  bool ends_model() const { return end_ == static_cast<uint32_t>(job_.plan.layout().block_size()); }
  BlockState* StateOf(uint32_t block) { return memory_.slots.front().states[block - first_].get(); }
  const BackendMemory* KeptGradient(uint32_t block) {
    return memory_.slots.front().output_gradients[block - first_].get();
  }
  float* Arrival(uint32_t boundary, FlowDirection direction) {
    return places_.arrivals.at({boundary, direction}).Next()->memory->data();
  }

  PassContext Context(bool training) const {
    PassContext context;
    context.training = training;
    return context;
  }

  BlockWeights WeightsOf(uint32_t block) const {
    BlockWeights weights;
    const v1::BlockLayout& own = layout(block);
    if (own.segment() >= 0) {
      weights.own = weights_.at(static_cast<uint32_t>(own.segment()))->data();
    }
    if (own.has_tied_segment()) weights.tied = weights_.at(own.tied_segment())->data();
    return weights;
  }

  BlockGradients GradientsOf(uint32_t block) {
    BlockGradients gradients;
    for (const ParameterUse& use : UsesOf(job_.plan, job_.worker)) {
      if (use.block != block) continue;
      float* const place = device_.gradients.at({use.segment, use.use}).Next()->memory->data();
      (use.tied ? gradients.tied : gradients.own) = place;
    }
    return gradients;
  }

  const float* InputOf(uint32_t block) {
    if (layout(block).has_skip_from()) {
      return memory_.slots.front().input_sums[block - first_]->data();
    }
    if (block > first_) return outputs_[block - 1 - first_].data;
    if (block == 0) return places_.inputs.Next()->memory->data();
    return Arrival(block - 1, FlowDirection::kForward);
  }

  absl::Status Forward(bool training) {
    for (uint32_t block = first_; block < end_; ++block) {
      const ConstMatrix input(InputOf(block), rows_, Elements(layout(block).input_shape()));
      ASSIGN_OR_RETURN(outputs_[block - first_],
                       job_.blocks[block]->Forward(backend_, Context(training), input,
                                                   WeightsOf(block), StateOf(block)));
    }
    return absl::OkStatus();
  }

  // Class 0 and the number 0 are labels of every loss.
  absl::Status ComputeLoss(Matrix* gradient) {
    const std::vector<uint32_t> labels(static_cast<size_t>(rows_) *
                                       job_.plan.layout().terms_per_sample());
    return job_.loss->Compute(backend_, outputs_.back(), labels.data(), gradient).status();
  }

  absl::StatusOr<ConstMatrix> Backward(uint32_t index, ConstMatrix gradient) {
    const Block& block = *job_.blocks[index];
    const PassContext context = Context(/*training=*/true);
    if (job_.backward_mode == BackwardMode::kWhole || !block.splits()) {
      return block.Backward(backend_, context, gradient, WeightsOf(index), index > 0,
                            GradientsOf(index), StateOf(index));
    }
    ASSIGN_OR_RETURN(const ConstMatrix input_gradient,
                     block.BackwardInput(backend_, context, gradient, WeightsOf(index), index > 0,
                                         StateOf(index)));
    RETURN_IF_ERROR(block.BackwardWeights(backend_, context, WeightsOf(index), GradientsOf(index),
                                          StateOf(index)));
    return input_gradient;
  }

  const PreparedJob& job_;
  Backend* const backend_;
  DeviceMemory& device_;
  const std::map<uint32_t, std::unique_ptr<BackendMemory>>& weights_;
  StageMemory& memory_;
  DeviceMemory::Slot& places_;
  const int64_t rows_;
  std::vector<ConstMatrix> outputs_;  // by block of the stage
  uint32_t first_ = 0;                // blocks [first, end)
  uint32_t end_ = 0;
};

absl::Status Rehearse(PreparedJob* job, LaneMemory* lane) {
  for (uint32_t chunk = 0; chunk < lane->stages.size(); ++chunk) {
    if (lane->stages[chunk].slots.empty()) continue;
    StageRehearsal stage(job, lane, chunk);
    RETURN_IF_ERROR(stage.Evaluate());
    RETURN_IF_ERROR(stage.Train());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RehearseLane(PreparedJob* job, uint32_t index) {
  LaneMemory* const lane = &job->lanes[index];
  if (lane->device == nullptr || !lane->backend->BeginRehearsal()) return absl::OkStatus();
  absl::Status status = Rehearse(job, lane);
  const absl::Status room = lane->backend->EndRehearsal();
  status.Update(room);
  return status;
}

}  // namespace sangam
