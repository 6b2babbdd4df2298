#include "worker/layers/residual.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/layer_chain.h"

namespace sangam {

LayerDemand ResidualLayer::demand() const { return ResidualDemand(size_, within_.demands()); }

absl::StatusOr<ConstMatrix> ResidualLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                   LayerState* state) const {
  ASSIGN_OR_RETURN(const ConstMatrix within, within_.Forward(call, input, &state->inner));
  const Matrix output = {state->output, input.rows, size_};
  RETURN_IF_ERROR(call.backend->Add(input, within, output));
  return ConstMatrix(output);
}

absl::StatusOr<ConstMatrix> ResidualLayer::BackwardInput(const LayerCall& call,
                                                         ConstMatrix output_gradient,
                                                         bool want_input_gradient,
                                                         LayerState* state) const {
  ASSIGN_OR_RETURN(
      const ConstMatrix within,
      within_.BackwardInput(call, output_gradient, want_input_gradient, &state->inner));
  if (!want_input_gradient) return ConstMatrix();
  const Matrix input_gradient = {state->input_gradient, output_gradient.rows, size_};
  RETURN_IF_ERROR(call.backend->Add(output_gradient, within, input_gradient));
  return ConstMatrix(input_gradient);
}

absl::Status ResidualLayer::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                            LayerState* state) const {
  return within_.BackwardWeights(call, gradients, &state->inner);
}

}  // namespace sangam
