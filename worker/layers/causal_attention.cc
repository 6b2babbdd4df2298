#include "worker/layers/causal_attention.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/linear.h"

namespace sangam {

namespace {

// Places of the parts in LayerState::inner.
constexpr size_t kQkv = 0;
constexpr size_t kBetween = 1;
constexpr size_t kOut = 2;

}  // namespace

LayerDemand CausalAttentionLayer::demand() const {
  return CausalAttentionDemand(options_.qkv.positions, options_.qkv.in_features, options_.heads);
}

AttentionShape CausalAttentionLayer::shape() const {
  AttentionShape shape;
  shape.positions = options_.qkv.positions;
  shape.heads = options_.heads;
  return shape;
}

Rotation CausalAttentionLayer::rotation(bool backward) const {
  Rotation rotation;
  rotation.positions = options_.qkv.positions;
  rotation.heads = options_.heads;
  rotation.base = options_.rotary_base;
  rotation.backward = backward;
  return rotation;
}

absl::StatusOr<ConstMatrix> CausalAttentionLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                          LayerState* state) const {
  LayerState& between = state->inner[kBetween];
  RETURN_IF_ERROR(qkv_.Forward(call, input, &state->inner[kQkv]).status());
  const int64_t width = options_.qkv.in_features;
  const int64_t rows = input.rows * options_.qkv.positions;
  // In place: the projection needs its output no more.
  const Matrix qkv = {state->inner[kQkv].output, rows, 3 * width};
  if (options_.rotary) RETURN_IF_ERROR(call.backend->Rotate(rotation(false), qkv, qkv));
  RETURN_IF_ERROR(call.backend->CausalAttention(shape(), qkv, {between.output, rows, width},
                                                {between.kept, rows, options_.heads}));
  state->inner[kOut].output = state->output;
  return out_.Forward(call, {between.output, input.rows, input.cols}, &state->inner[kOut]);
}

absl::StatusOr<ConstMatrix> CausalAttentionLayer::BackwardInput(const LayerCall& call,
                                                                ConstMatrix output_gradient,
                                                                bool want_input_gradient,
                                                                LayerState* state) const {
  LayerState& between = state->inner[kBetween];
  ASSIGN_OR_RETURN(const ConstMatrix heads_gradient,
                   out_.BackwardInput(call, output_gradient, true, &state->inner[kOut]));
  const int64_t width = options_.qkv.in_features;
  const int64_t rows = output_gradient.rows * options_.qkv.positions;
  const Matrix gradient = {between.input_gradient, rows, 3 * width};
  RETURN_IF_ERROR(call.backend->CausalAttentionBackward(
      shape(), {state->inner[kQkv].output, rows, 3 * width}, {between.output, rows, width},
      {between.kept, rows, options_.heads}, {heads_gradient.data, rows, width}, gradient));
  if (options_.rotary) RETURN_IF_ERROR(call.backend->Rotate(rotation(true), gradient, gradient));
  const ConstMatrix samples(gradient.data, output_gradient.rows, 3 * output_gradient.cols);
  return qkv_.BackwardInput(call, samples, want_input_gradient, &state->inner[kQkv]);
}

absl::Status CausalAttentionLayer::BackwardWeights(const LayerCall& call,
                                                   const LayerGradients& gradients,
                                                   LayerState* state) const {
  RETURN_IF_ERROR(out_.BackwardWeights(call, gradients, &state->inner[kOut]));
  return qkv_.BackwardWeights(call, gradients, &state->inner[kQkv]);
}

}  // namespace sangam
