#include "worker/layers/embedding.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

LayerDemand EmbeddingLayer::demand() const {
  return EmbeddingDemand(options_.positions, options_.width);
}

absl::StatusOr<ConstMatrix> EmbeddingLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                    LayerState* state) const {
  state->input = input;
  const ConstMatrix table(call.weights + options_.table_offset, options_.vocabulary,
                          options_.width);
  const Matrix output = {state->output, input.rows * options_.positions, options_.width};
  RETURN_IF_ERROR(call.backend->Lookup(input, table, output));
  return ConstMatrix(state->output, input.rows, options_.positions * options_.width);
}

absl::StatusOr<ConstMatrix> EmbeddingLayer::BackwardInput(const LayerCall& /*call*/,
                                                          ConstMatrix output_gradient,
                                                          bool want_input_gradient,
                                                          LayerState* state) const {
  if (want_input_gradient) {
    return absl::InvalidArgumentError("embedding: asked for the gradient of tokens, there is none");
  }
  state->weighted_gradient = output_gradient;
  return ConstMatrix();
}

absl::Status EmbeddingLayer::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                             LayerState* state) const {
  const Matrix table = {gradients.own + options_.table_offset, options_.vocabulary, options_.width};
  // Rows of tokens that do not occur are not touched below.
  if (!gradients.accumulate) RETURN_IF_ERROR(call.backend->Fill(0, table));
  const ConstMatrix rows(state->weighted_gradient.data,
                         state->weighted_gradient.rows * options_.positions, options_.width);
  return call.backend->LookupBackward(state->input, rows, table);
}

}  // namespace sangam
