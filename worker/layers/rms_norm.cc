#include "worker/layers/rms_norm.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

LayerDemand RmsNormLayer::demand() const {
  return RmsNormDemand(options_.positions, options_.width);
}

absl::StatusOr<ConstMatrix> RmsNormLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                  LayerState* state) const {
  state->input = input;
  const ConstMatrix rows = Rows(input);
  const ConstMatrix gain(call.weights + options_.gain_offset, 1, options_.width);
  RETURN_IF_ERROR(call.backend->RmsNorm(rows, gain, options_.epsilon,
                                        {state->output, rows.rows, options_.width},
                                        {state->kept, rows.rows, 1}));
  return ConstMatrix(state->output, input.rows, input.cols);
}

absl::StatusOr<ConstMatrix> RmsNormLayer::BackwardInput(const LayerCall& call,
                                                        ConstMatrix output_gradient,
                                                        bool want_input_gradient,
                                                        LayerState* state) const {
  state->weighted_gradient = output_gradient;
  if (!want_input_gradient) return ConstMatrix();
  const ConstMatrix rows = Rows(state->input);
  const ConstMatrix gain(call.weights + options_.gain_offset, 1, options_.width);
  RETURN_IF_ERROR(call.backend->RmsNormBackward(rows, gain, {state->kept, rows.rows, 1},
                                                Rows(output_gradient),
                                                {state->input_gradient, rows.rows, rows.cols}));
  return ConstMatrix(state->input_gradient, output_gradient.rows, output_gradient.cols);
}

absl::Status RmsNormLayer::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                           LayerState* state) const {
  const ConstMatrix rows = Rows(state->input);
  return call.backend->RmsNormGainGradient(
      rows, {state->kept, rows.rows, 1}, Rows(state->weighted_gradient), gradients.accumulate,
      {gradients.own + options_.gain_offset, 1, options_.width});
}

}  // namespace sangam
