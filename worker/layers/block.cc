#include "worker/layers/block.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/backend/memory_source.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/layer_chain.h"
#include "worker/layers/layer_factory.h"
#include "worker/layers/layer_memory.h"
#include "worker/layers/pass_context.h"

namespace sangam {
namespace {

class Scratch : public BlockScratch {
 public:
  const void* owner = nullptr;
  uint64_t max_rows = 0;
  BackwardMode mode = BackwardMode::kWhole;
  std::unique_ptr<BackendMemory> memory;
  // What a pass uses besides its state; with recompute all but the output of the last layer.
  std::vector<LayerState> layers;
  // With recompute: memory of the layer that gives the output in evaluation, when it is not the one
  // that does in training.
  float* inner_output = nullptr;
};

class State : public BlockState {
 public:
  const void* owner = nullptr;
  uint64_t max_rows = 0;
  BackwardMode mode = BackwardMode::kWhole;
  std::unique_ptr<BackendMemory> memory;
  // Empty with recompute: then a pass uses the layers of the scratch, and of this state only the
  // two below.
  std::vector<LayerState> layers;
  float* output = nullptr;
  ConstMatrix input;
  Scratch* scratch = nullptr;  // borrowed; nullptr where nothing of it is used
  // Rows of the pass that may go back; -1: none.
  int64_t rows_in_flight = -1;
  // Whether BackwardInput has run since the last Forward.
  bool input_done = false;
};

// Allocates what `cut` cuts.
template <typename Cut>
absl::StatusOr<std::unique_ptr<BackendMemory>> Allocate(const MemorySource& source,
                                                        uint64_t max_rows, const std::string& block,
                                                        Cut cut) {
  PieceCutter counter(max_rows, nullptr);
  cut(&counter);
  if (!counter.fits()) {
    return absl::ResourceExhaustedError(absl::StrCat("block \"", block, "\": activations of ",
                                                     max_rows, " rows do not fit any memory"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<BackendMemory> memory, source.Allocate(counter.total()),
                   "block \"%s\", activations of %d rows", block, max_rows);
  PieceCutter cutter(max_rows, memory->data());
  cut(&cutter);
  return memory;
}

int64_t Size(const Shape& shape) { return static_cast<int64_t>(Elements(shape)); }

}  // namespace

struct Block::Impl {
  std::string name;
  LayerChain layers;
  std::vector<LayerDemand> demands;
  int64_t input_size = 0;
  int64_t output_size = 0;
  bool has_own = false;
  bool has_tied = false;
  bool recompute = false;
  // The layers that give the block's output; -1: it is the input.
  int training_output = -1;
  int evaluation_output = -1;

  absl::Status Fault(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat("block \"", name, "\": ", message));
  }

  // The state as ours.
  absl::StatusOr<State*> Own(BlockState* state) const {
    auto* own = dynamic_cast<State*>(state);
    if (own == nullptr || own->owner != this) return Fault("the state is of another block");
    return own;
  }

  absl::Status CheckMatrix(absl::string_view what, ConstMatrix matrix, int64_t rows,
                           int64_t cols) const {
    if (matrix.rows == rows && matrix.cols == cols) return absl::OkStatus();
    return Fault(absl::StrCat(what, " is [", matrix.rows, ", ", matrix.cols, "], expected [", rows,
                              ", ", cols, "]"));
  }

  absl::Status CheckWeights(const BlockWeights& weights) const {
    if ((has_own && weights.own == nullptr) || (has_tied && weights.tied == nullptr)) {
      return Fault("there are no weights");
    }
    return absl::OkStatus();
  }

  absl::Status CheckGradients(const BlockGradients& gradients) const {
    if ((has_own && gradients.own == nullptr) || (has_tied && gradients.tied == nullptr)) {
      return Fault("there is no place for the gradient of the weights");
    }
    return absl::OkStatus();
  }

  // Whether a pass may go back: Forward has run with `state`, in training.
  absl::Status CheckBackward(const State& state, ConstMatrix output_gradient) const {
    if (state.rows_in_flight < 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "block \"", name, "\": backward without a forward pass in training before it"));
    }
    return CheckMatrix("the gradient of the output", output_gradient, state.rows_in_flight,
                       output_size);
  }

  // The memory that a pass with `state` works in.
  std::vector<LayerState>* LayersOf(State* state, bool training) const {
    if (!recompute) return &state->layers;
    std::vector<LayerState>& layers = state->scratch->layers;
    const auto at = [&layers](int layer) -> LayerState& {
      return layers[static_cast<size_t>(layer)];
    };
    if (training_output >= 0) at(training_output).output = state->output;
    if (evaluation_output >= 0 && evaluation_output != training_output) {
      at(evaluation_output).output = training ? state->scratch->inner_output : state->output;
    }
    return &layers;
  }

  LayerCall CallOf(Backend* backend, const PassContext& context,
                   const BlockWeights& weights) const {
    return {backend, &context, weights.own, weights.tied, weights.arrival};
  }
};

Block::Block(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Block::~Block() = default;

absl::StatusOr<std::unique_ptr<Block>> Block::Create(const v1::ModelSpec& model,
                                                     const v1::ModelLayout& layout,
                                                     uint32_t index) {
  auto impl = std::make_unique<Impl>();
  ASSIGN_OR_RETURN(impl->layers, MakeLayers(model, layout, index));
  const v1::BlockLayout& block = layout.block(static_cast<int>(index));
  impl->name = block.name();
  impl->demands = impl->layers.demands();
  impl->input_size = Size({block.input_shape().begin(), block.input_shape().end()});
  impl->output_size = Size({block.output_shape().begin(), block.output_shape().end()});
  impl->has_own = block.segment() >= 0;
  impl->has_tied = block.has_tied_segment();
  impl->recompute = model.block(static_cast<int>(index)).recompute();
  impl->training_output = OutputLayer(impl->demands);
  for (size_t i = 0; i < impl->layers.layers().size(); ++i) {
    if (impl->layers.layers()[i]->moves(false)) impl->evaluation_output = static_cast<int>(i);
  }
  return std::unique_ptr<Block>(new Block(std::move(impl)));
}

absl::StatusOr<std::unique_ptr<BlockScratch>> Block::NewScratch(const MemorySource& source,
                                                                uint64_t max_rows,
                                                                BackwardMode mode) const {
  auto scratch = std::make_unique<Scratch>();
  scratch->owner = impl_.get();
  scratch->max_rows = max_rows;
  scratch->mode = mode;
  if (mode == BackwardMode::kSplit && !impl_->recompute) return scratch;
  std::vector<LayerDemand> demands = impl_->demands;
  if (impl_->recompute && impl_->training_output >= 0) {
    demands[static_cast<size_t>(impl_->training_output)].output = 0;
  }
  ASSIGN_OR_RETURN(scratch->memory,
                   Allocate(source, max_rows, impl_->name, [&](PieceCutter* cutter) {
                     if (impl_->recompute) CutStates(demands, cutter, &scratch->layers);
                     CutScratch(demands, cutter, &scratch->layers);
                   }));
  if (impl_->evaluation_output >= 0) {
    scratch->inner_output = scratch->layers[static_cast<size_t>(impl_->evaluation_output)].output;
  }
  return scratch;
}

absl::StatusOr<std::unique_ptr<BlockState>> Block::NewState(const MemorySource& source,
                                                            uint64_t max_rows, BackwardMode mode,
                                                            BlockScratch* scratch) const {
  auto state = std::make_unique<State>();
  state->owner = impl_.get();
  state->max_rows = max_rows;
  state->mode = mode;
  const bool all_in_state = mode == BackwardMode::kSplit && !impl_->recompute;
  if (!all_in_state) {
    state->scratch = dynamic_cast<Scratch*>(scratch);
    if (state->scratch == nullptr || state->scratch->owner != impl_.get() ||
        (state->scratch->mode != mode && !impl_->recompute)) {
      return impl_->Fault("the scratch is of another block or mode");
    }
    if (state->scratch->max_rows < max_rows) {
      return impl_->Fault(absl::StrCat("found a scratch for ", state->scratch->max_rows,
                                       " rows, expected at least ", max_rows));
    }
    if (!impl_->recompute) state->layers = state->scratch->layers;
  }
  ASSIGN_OR_RETURN(state->memory, Allocate(source, max_rows, impl_->name, [&](PieceCutter* cutter) {
                     if (impl_->recompute) {
                       const int last = impl_->training_output;
                       state->output = cutter->Cut(
                           last < 0 ? 0 : impl_->demands[static_cast<size_t>(last)].output);
                       return;
                     }
                     CutStates(impl_->demands, cutter, &state->layers);
                     if (all_in_state) CutScratch(impl_->demands, cutter, &state->layers);
                   }));
  return state;
}

bool Block::rows_stand_alone() const {
  return impl_->layers.rows_stand_alone() && !impl_->has_tied && !impl_->recompute;
}

bool Block::splits() const { return (impl_->has_own || impl_->has_tied) && !impl_->recompute; }

absl::StatusOr<ConstMatrix> Block::Forward(Backend* backend, const PassContext& context,
                                           ConstMatrix input, const BlockWeights& weights,
                                           BlockState* state) const {
  ASSIGN_OR_RETURN(State * own, impl_->Own(state));
  own->rows_in_flight = -1;
  own->input_done = false;
  RETURN_IF_ERROR(impl_->CheckMatrix("the input", input, input.rows, impl_->input_size));
  if (input.rows < 0 || static_cast<uint64_t>(input.rows) > own->max_rows) {
    return impl_->Fault(
        absl::StrCat("found ", input.rows, " rows, expected at most ", own->max_rows));
  }
  RETURN_IF_ERROR(impl_->CheckWeights(weights));
  ASSIGN_OR_RETURN(const ConstMatrix output,
                   impl_->layers.Forward(impl_->CallOf(backend, context, weights), input,
                                         impl_->LayersOf(own, context.training)));
  own->input = input;
  if (context.training) own->rows_in_flight = input.rows;
  return output;
}

absl::StatusOr<ConstMatrix> Block::Backward(Backend* backend, const PassContext& context,
                                            ConstMatrix output_gradient,
                                            const BlockWeights& weights, bool want_input_gradient,
                                            const BlockGradients& gradients,
                                            BlockState* state) const {
  ASSIGN_OR_RETURN(State * own, impl_->Own(state));
  RETURN_IF_ERROR(impl_->CheckBackward(*own, output_gradient));
  RETURN_IF_ERROR(impl_->CheckWeights(weights));
  RETURN_IF_ERROR(impl_->CheckGradients(gradients));
  const LayerCall call = impl_->CallOf(backend, context, weights);
  std::vector<LayerState>* const layers = impl_->LayersOf(own, /*training=*/true);
  if (impl_->recompute) {
    // The output is written again, with the same bits.
    RETURN_IF_ERROR(impl_->layers.Forward(call, own->input, layers).status());
  }
  return impl_->layers.Backward(
      call, output_gradient, want_input_gradient,
      {gradients.own, gradients.tied, gradients.accumulate, gradients.terms, gradients.progress},
      layers);
}

absl::StatusOr<ConstMatrix> Block::BackwardInput(Backend* backend, const PassContext& context,
                                                 ConstMatrix output_gradient,
                                                 const BlockWeights& weights,
                                                 bool want_input_gradient,
                                                 BlockState* state) const {
  ASSIGN_OR_RETURN(State * own, impl_->Own(state));
  if (own->mode != BackwardMode::kSplit || impl_->recompute) {
    return impl_->Fault("the state is not for a backward pass in two parts");
  }
  RETURN_IF_ERROR(impl_->CheckBackward(*own, output_gradient));
  RETURN_IF_ERROR(impl_->CheckWeights(weights));
  ASSIGN_OR_RETURN(const ConstMatrix input_gradient,
                   impl_->layers.BackwardInput(impl_->CallOf(backend, context, weights),
                                               output_gradient, want_input_gradient, &own->layers));
  own->input_done = true;
  return input_gradient;
}

absl::Status Block::BackwardWeights(Backend* backend, const PassContext& context,
                                    const BlockWeights& weights, const BlockGradients& gradients,
                                    BlockState* state) const {
  ASSIGN_OR_RETURN(State * own, impl_->Own(state));
  if (!own->input_done) {
    return absl::FailedPreconditionError(absl::StrCat(
        "block \"", impl_->name, "\": gradients of weights without BackwardInput before it"));
  }
  RETURN_IF_ERROR(impl_->CheckWeights(weights));
  RETURN_IF_ERROR(impl_->CheckGradients(gradients));
  return impl_->layers.BackwardWeights(
      impl_->CallOf(backend, context, weights),
      {gradients.own, gradients.tied, gradients.accumulate, gradients.terms, gradients.progress},
      &own->layers);
}

}  // namespace sangam
