#ifndef SANGAM_WORKER_LAYERS_BLOCK_H_
#define SANGAM_WORKER_LAYERS_BLOCK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/memory_source.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"
#include "worker/layers/pass_context.h"
#include "worker/layers/segment_progress.h"

namespace sangam {

// How the backward passes of a job's blocks are called.
enum class BackwardMode {
  kWhole,  // Backward
  kSplit,  // BackwardInput, and BackwardWeights later, when other micro-batches may have passed
};

// Memory of one block for one micro-batch in flight, a slot: what forward keeps for backward and
// the output; in mode kSplit everything. Belongs to one lane; used again micro-batch after
// micro-batch. No pass allocates.
class BlockState {
 public:
  virtual ~BlockState() = default;
};

// Memory of one block for the pass under way, shared by the states of one lane: deltas and
// gradients of inputs, and with BlockSpec.recompute everything but input and output.
class BlockScratch {
 public:
  virtual ~BlockScratch() = default;
};

// A block's parameters in the backend's memory: whole segments. nullptr where it has none.
struct BlockWeights {
  const float* own = nullptr;
  const float* tied = nullptr;  // of BlockLayout.tied_segment
  // Not nullptr, only for Forward on a backend that computes at once: `own` may be on its way yet.
  const WeightsArrival* arrival = nullptr;
};

// Where the gradients with respect to them go; same length.
struct BlockGradients {
  float* own = nullptr;
  float* tied = nullptr;
  // True: add to what is there. False: every element of the segment is overwritten, also those of
  // parameters that the block does not use.
  bool accumulate = false;
  // As LayerGradients: for several micro-batches in one pass, where rows_stand_alone().
  const std::vector<RowTerm>* terms = nullptr;
  // As LayerGradients.
  const GradientProgress* progress = nullptr;
};

// A group of layers, computed as one unit. Immutable after creation: many lanes may use one block,
// each with its own Backend, BlockScratch and BlockStates.
class Block {
 public:
  ~Block();

  // Block `index` of the model.
  // Errors: InvalidArgument  layers that do not fit the layout
  static absl::StatusOr<std::unique_ptr<Block>> Create(const v1::ModelSpec& model,
                                                       const v1::ModelLayout& layout,
                                                       uint32_t index);

  // Memory for micro-batches of at most `max_rows` samples: BlockLayout's activation_bytes and
  // scratch_bytes for each (rounded up to cache lines); in mode kSplit the scratch has none and the
  // state has both, but with recompute, where whole passes are all there are.
  // Errors: ResourceExhausted  the backend's memory cannot be had
  absl::StatusOr<std::unique_ptr<BlockScratch>> NewScratch(const MemorySource& source,
                                                           uint64_t max_rows,
                                                           BackwardMode mode) const;
  absl::StatusOr<std::unique_ptr<BlockState>> NewState(const MemorySource& source,
                                                       uint64_t max_rows, BackwardMode mode,
                                                       BlockScratch* scratch) const;

  // input: [rows, product of the input shape]. Input and weights must stay unchanged until the end
  // of backward when training. Returns the output [rows, product of the output shape], which lies
  // in `state` (or is the input itself, when the block moves nothing) and is valid until the next
  // Forward with the same state.
  // Errors: InvalidArgument  shapes that do not fit, or the state of another block
  absl::StatusOr<ConstMatrix> Forward(Backend* backend, const PassContext& context,
                                      ConstMatrix input, const BlockWeights& weights,
                                      BlockState* state) const;

  // Goes back through the pass that Forward did last with `state`; `context` must be the same.
  // output_gradient: [rows, output size], gradient of the loss sum. Writes the gradients with
  // respect to the parameters to `gradients`. Returns the gradient with respect to the input, which
  // is valid until the next pass of any state of the same scratch (or is output_gradient itself,
  // when the block moves nothing); when `want_input_gradient` is false it is not computed and the
  // result is empty. Errors: InvalidArgument     as Forward
  //         FailedPrecondition  Forward has not run with `state`, or not in training
  absl::StatusOr<ConstMatrix> Backward(Backend* backend, const PassContext& context,
                                       ConstMatrix output_gradient, const BlockWeights& weights,
                                       bool want_input_gradient, const BlockGradients& gradients,
                                       BlockState* state) const;

  // The same in two calls, with the same bits; mode kSplit only. `output_gradient` must stay
  // unchanged until BackwardWeights, and so does the result. With recompute BackwardInput cannot
  // leave anything for later: such a block is asked for Backward instead (see splits()).
  absl::StatusOr<ConstMatrix> BackwardInput(Backend* backend, const PassContext& context,
                                            ConstMatrix output_gradient,
                                            const BlockWeights& weights, bool want_input_gradient,
                                            BlockState* state) const;
  absl::Status BackwardWeights(Backend* backend, const PassContext& context,
                               const BlockWeights& weights, const BlockGradients& gradients,
                               BlockState* state) const;

  // Whether several micro-batches can go through it in one pass, with the same bits, on a backend
  // whose rows stand alone.
  bool rows_stand_alone() const;

  // Whether backward can be split: it has parameters and does not recompute.
  bool splits() const;

 private:
  struct Impl;
  explicit Block(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_BLOCK_H_
