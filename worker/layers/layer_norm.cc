#include "worker/layers/layer_norm.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {
namespace {

// What forward keeps of each row.
Matrix Mean(const LayerState& state, int64_t rows) { return {state.kept, rows, 1}; }
Matrix InverseDeviation(const LayerState& state, int64_t rows) {
  return {state.kept + rows, rows, 1};
}

}  // namespace

LayerDemand LayerNormLayer::demand() const {
  return LayerNormDemand(options_.positions, options_.width);
}

absl::StatusOr<ConstMatrix> LayerNormLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                    LayerState* state) const {
  state->input = input;
  const ConstMatrix rows = Rows(input);
  const ConstMatrix gain(call.weights + options_.gain_offset, 1, options_.width);
  const ConstMatrix bias(call.weights + options_.bias_offset, 1, options_.width);
  RETURN_IF_ERROR(call.backend->LayerNorm(
      rows, gain, bias, options_.epsilon, {state->output, rows.rows, options_.width},
      Mean(*state, rows.rows), InverseDeviation(*state, rows.rows)));
  return ConstMatrix(state->output, input.rows, input.cols);
}

absl::StatusOr<ConstMatrix> LayerNormLayer::BackwardInput(const LayerCall& call,
                                                          ConstMatrix output_gradient,
                                                          bool want_input_gradient,
                                                          LayerState* state) const {
  state->weighted_gradient = output_gradient;
  if (!want_input_gradient) return ConstMatrix();
  const ConstMatrix rows = Rows(state->input);
  const ConstMatrix gain(call.weights + options_.gain_offset, 1, options_.width);
  RETURN_IF_ERROR(call.backend->LayerNormBackward(
      rows, gain, Mean(*state, rows.rows), InverseDeviation(*state, rows.rows),
      Rows(output_gradient), {state->input_gradient, rows.rows, rows.cols}));
  return ConstMatrix(state->input_gradient, output_gradient.rows, output_gradient.cols);
}

absl::Status LayerNormLayer::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                             LayerState* state) const {
  const ConstMatrix rows = Rows(state->input);
  return call.backend->LayerNormParameterGradients(
      rows, Mean(*state, rows.rows), InverseDeviation(*state, rows.rows),
      Rows(state->weighted_gradient), gradients.accumulate,
      {gradients.own + options_.gain_offset, 1, options_.width},
      {gradients.own + options_.bias_offset, 1, options_.width});
}

}  // namespace sangam
