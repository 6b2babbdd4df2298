#ifndef SANGAM_WORKER_LAYERS_BLOCK_H_
#define SANGAM_WORKER_LAYERS_BLOCK_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/pass_context.h"

namespace sangam {

// Memory of one block for one micro-batch in flight: what forward keeps for backward, the output
// and the gradient with respect to the input. Belongs to one lane; used again micro-batch after
// micro-batch. No pass allocates.
class BlockState;

// A group of layers, computed as one unit. Immutable after creation: many lanes may use one block,
// each with its own Backend and BlockState.
class Block {
 public:
  ~Block();

  // `segment`: layout of the block's parameters, nullptr when it has none. `first_layer`: number of
  // the block's first layer within the model, counted over all blocks (the address of dropout's
  // random numbers).
  // Errors: InvalidArgument  layers that do not fit the layout
  static absl::StatusOr<std::unique_ptr<Block>> Create(const v1::BlockSpec& spec,
                                                       const v1::BlockLayout& layout,
                                                       const v1::SegmentLayout* segment,
                                                       uint32_t first_layer);

  // Memory for micro-batches of at most `max_rows` samples.
  // Errors: ResourceExhausted  the backend's memory cannot be had
  absl::StatusOr<std::unique_ptr<BlockState>> NewState(Backend* backend, uint64_t max_rows) const;

  // input: [rows, product of the input shape]; `weights`: the block's segment in the backend's
  // memory (nullptr without parameters). Both must stay unchanged until Backward when training.
  // Returns the output [rows, product of the output shape], which lies in `state` (or is the input
  // itself, when the block moves nothing) and is valid until the next Forward with the same state.
  // Errors: InvalidArgument  shapes that do not fit, or the state of another block
  absl::StatusOr<ConstMatrix> Forward(Backend* backend, const PassContext& context,
                                      ConstMatrix input, const float* weights,
                                      BlockState* state) const;

  // Goes back through the pass that Forward did last with `state`; `context` must be the same.
  // output_gradient: [rows, output size], gradient of the loss sum. Adds the gradient with respect
  // to the weights to `weight_gradient` (the segment's length; nullptr without parameters), or
  // overwrites it when `accumulate` is false. Returns the gradient with respect to the input, which
  // lies in `state` (or is output_gradient itself, when the block moves nothing); when
  // `want_input_gradient` is false it is not computed and the result is empty.
  // Errors: InvalidArgument     as Forward
  //         FailedPrecondition  Forward has not run with `state`, or not in training
  absl::StatusOr<ConstMatrix> Backward(Backend* backend, const PassContext& context,
                                       ConstMatrix output_gradient, const float* weights,
                                       bool accumulate, bool want_input_gradient,
                                       float* weight_gradient, BlockState* state) const;

 private:
  struct Impl;
  explicit Block(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class BlockState {
 public:
  virtual ~BlockState() = default;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_BLOCK_H_
