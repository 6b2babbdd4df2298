#include "worker/layers/position_embedding.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

LayerDemand PositionEmbeddingLayer::demand() const {
  return PositionEmbeddingDemand(options_.positions * options_.width);
}

absl::StatusOr<ConstMatrix> PositionEmbeddingLayer::Forward(const LayerCall& call,
                                                            ConstMatrix input,
                                                            LayerState* state) const {
  const ConstMatrix table(call.weights + options_.table_offset, options_.positions, options_.width);
  const ConstMatrix rows(input.data, input.rows * options_.positions, options_.width);
  RETURN_IF_ERROR(
      call.backend->AddRepeated(rows, table, {state->output, rows.rows, options_.width}));
  return ConstMatrix(state->output, input.rows, input.cols);
}

absl::StatusOr<ConstMatrix> PositionEmbeddingLayer::BackwardInput(const LayerCall& /*call*/,
                                                                  ConstMatrix output_gradient,
                                                                  bool want_input_gradient,
                                                                  LayerState* state) const {
  state->weighted_gradient = output_gradient;
  return want_input_gradient ? output_gradient : ConstMatrix();
}

absl::Status PositionEmbeddingLayer::BackwardWeights(const LayerCall& call,
                                                     const LayerGradients& gradients,
                                                     LayerState* state) const {
  const ConstMatrix rows(state->weighted_gradient.data,
                         state->weighted_gradient.rows * options_.positions, options_.width);
  const Matrix table = {gradients.own + options_.table_offset, options_.positions, options_.width};
  return call.backend->SumRepeated(rows, gradients.accumulate, table);
}

}  // namespace sangam
