#include "worker/layers/conv2d.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

LayerDemand Conv2dLayer::demand() const {
  return Conv2dDemand(options_.shape.in.elements(), options_.shape.out().elements(), options_.relu);
}

absl::StatusOr<ConstMatrix> Conv2dLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                 LayerState* state) const {
  state->input = input;
  const int64_t channels = options_.shape.out_channels;
  const ConstMatrix weight(call.weights + options_.weight_offset, channels, Filter());
  const Matrix output = {state->output, input.rows, options_.shape.out().elements()};
  ConstMatrix bias;
  Epilogue epilogue = Epilogue::kNone;
  if (options_.bias_offset.has_value()) {
    bias = {call.weights + *options_.bias_offset, 1, channels};
    epilogue = options_.relu ? Epilogue::kBiasRelu : Epilogue::kBias;
  }
  RETURN_IF_ERROR(call.backend->Conv2d(options_.shape, input, weight, epilogue, bias, output));
  if (options_.relu && !options_.bias_offset.has_value()) {
    RETURN_IF_ERROR(call.backend->Activate(Activation::kRelu, output, output));
  }
  return ConstMatrix(output);
}

absl::StatusOr<ConstMatrix> Conv2dLayer::BackwardInput(const LayerCall& call,
                                                       ConstMatrix output_gradient,
                                                       bool want_input_gradient,
                                                       LayerState* state) const {
  state->weighted_gradient = output_gradient;
  if (options_.relu) {
    const Matrix delta = {state->delta, output_gradient.rows, output_gradient.cols};
    const ConstMatrix output(state->output, output_gradient.rows, output_gradient.cols);
    RETURN_IF_ERROR(
        call.backend->ActivateBackward(Activation::kRelu, output, output_gradient, delta));
    state->weighted_gradient = delta;
  }
  if (!want_input_gradient) return ConstMatrix();
  const ConstMatrix weight(call.weights + options_.weight_offset, options_.shape.out_channels,
                           Filter());
  const Matrix input_gradient = {state->input_gradient, output_gradient.rows,
                                 options_.shape.in.elements()};
  RETURN_IF_ERROR(call.backend->Conv2dBackwardInput(options_.shape, weight,
                                                    state->weighted_gradient, input_gradient));
  return ConstMatrix(input_gradient);
}

absl::Status Conv2dLayer::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                          LayerState* state) const {
  const int64_t channels = options_.shape.out_channels;
  RETURN_IF_ERROR(call.backend->Conv2dBackwardWeight(
      options_.shape, state->input, state->weighted_gradient, gradients.accumulate,
      {gradients.own + options_.weight_offset, channels, Filter()}));
  if (!options_.bias_offset.has_value()) return absl::OkStatus();
  const ConstMatrix pixels(state->weighted_gradient.data,
                           state->weighted_gradient.rows * options_.shape.out().pixels(), channels);
  return call.backend->SumRows(pixels, gradients.accumulate,
                               {gradients.own + *options_.bias_offset, 1, channels});
}

}  // namespace sangam
