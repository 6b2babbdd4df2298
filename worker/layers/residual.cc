#include "worker/layers/residual.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/layer_chain.h"

namespace sangam {

namespace {

// States of the two chains.
std::vector<LayerState>* Within(LayerState* state) { return &state->inner[0].inner; }
std::vector<LayerState>* Shortcut(LayerState* state) { return &state->inner[1].inner; }

}  // namespace

LayerDemand ResidualLayer::demand() const {
  return ResidualDemand(in_, out_,
                        {ChainDemand(within_.demands()), ChainDemand(shortcut_.demands())});
}

absl::StatusOr<ConstMatrix> ResidualLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                   LayerState* state) const {
  ASSIGN_OR_RETURN(const ConstMatrix within, within_.Forward(call, input, Within(state)));
  ASSIGN_OR_RETURN(const ConstMatrix shortcut, shortcut_.Forward(call, input, Shortcut(state)));
  const Matrix output = {state->output, input.rows, out_};
  RETURN_IF_ERROR(call.backend->Add(shortcut, within, output));
  return ConstMatrix(output);
}

absl::StatusOr<ConstMatrix> ResidualLayer::BackwardInput(const LayerCall& call,
                                                         ConstMatrix output_gradient,
                                                         bool want_input_gradient,
                                                         LayerState* state) const {
  ASSIGN_OR_RETURN(
      const ConstMatrix within,
      within_.BackwardInput(call, output_gradient, want_input_gradient, Within(state)));
  ASSIGN_OR_RETURN(
      const ConstMatrix shortcut,
      shortcut_.BackwardInput(call, output_gradient, want_input_gradient, Shortcut(state)));
  if (!want_input_gradient) return ConstMatrix();
  const Matrix input_gradient = {state->input_gradient, output_gradient.rows, in_};
  RETURN_IF_ERROR(call.backend->Add(shortcut, within, input_gradient));
  return ConstMatrix(input_gradient);
}

absl::Status ResidualLayer::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                            LayerState* state) const {
  RETURN_IF_ERROR(within_.BackwardWeights(call, gradients, Within(state)));
  return shortcut_.BackwardWeights(call, gradients, Shortcut(state));
}

}  // namespace sangam
