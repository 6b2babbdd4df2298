#include "worker/layers/activation.h"

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

LayerDemand ActivationLayer::demand() const { return ActivationDemand(size_); }

absl::StatusOr<ConstMatrix> ActivationLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                     LayerState* state) const {
  state->input = input;
  const Matrix output = {state->output, input.rows, size_};
  RETURN_IF_ERROR(call.backend->Activate(activation_, input, output));
  return ConstMatrix(output);
}

absl::StatusOr<ConstMatrix> ActivationLayer::BackwardInput(const LayerCall& call,
                                                           ConstMatrix output_gradient,
                                                           bool want_input_gradient,
                                                           LayerState* state) const {
  if (!want_input_gradient) return ConstMatrix();
  // The derivative of gelu needs its input; those of the others follow from their outputs.
  const ConstMatrix kept = activation_ == Activation::kGelu
                               ? state->input
                               : ConstMatrix(state->output, output_gradient.rows, size_);
  const Matrix input_gradient = {state->input_gradient, output_gradient.rows, size_};
  RETURN_IF_ERROR(
      call.backend->ActivateBackward(activation_, kept, output_gradient, input_gradient));
  return ConstMatrix(input_gradient);
}

}  // namespace sangam
