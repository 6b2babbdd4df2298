#include "worker/layers/pooling.h"

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

LayerDemand PoolingLayer::demand() const {
  return PoolDemand(shape_.in.elements(), shape_.out().elements());
}

absl::StatusOr<ConstMatrix> PoolingLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                  LayerState* state) const {
  state->input = input;
  const Matrix output = {state->output, input.rows, shape_.out().elements()};
  RETURN_IF_ERROR(pooling_ == Pooling::kMax ? call.backend->MaxPool2d(shape_, input, output)
                                            : call.backend->AveragePool2d(shape_, input, output));
  return ConstMatrix(output);
}

absl::StatusOr<ConstMatrix> PoolingLayer::BackwardInput(const LayerCall& call,
                                                        ConstMatrix output_gradient,
                                                        bool want_input_gradient,
                                                        LayerState* state) const {
  if (!want_input_gradient) return ConstMatrix();
  const Matrix input_gradient = {state->input_gradient, output_gradient.rows, shape_.in.elements()};
  if (pooling_ == Pooling::kMax) {
    const ConstMatrix output(state->output, output_gradient.rows, output_gradient.cols);
    RETURN_IF_ERROR(call.backend->MaxPool2dBackward(shape_, state->input, output, output_gradient,
                                                    input_gradient));
  } else {
    RETURN_IF_ERROR(call.backend->AveragePool2dBackward(shape_, output_gradient, input_gradient));
  }
  return ConstMatrix(input_gradient);
}

}  // namespace sangam
