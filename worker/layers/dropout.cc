#include "worker/layers/dropout.h"

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

LayerDemand DropoutLayer::demand() const { return DropoutDemand(options_.rate, options_.size); }

bool DropoutLayer::moves(bool training) const { return training && options_.rate != 0; }

absl::StatusOr<ConstMatrix> DropoutLayer::Apply(const LayerCall& call, ConstMatrix in,
                                                float* out) const {
  if (!moves(call.context->training)) return in;
  DropoutAddress address;
  address.seed = call.context->seed;
  address.step = call.context->step;
  address.layer = options_.layer;
  address.first_position = call.context->first_position;
  const Matrix result = {out, in.rows, in.cols};
  RETURN_IF_ERROR(call.backend->Dropout(address, options_.rate, in, result));
  return ConstMatrix(result);
}

absl::StatusOr<ConstMatrix> DropoutLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                  LayerState* state) const {
  return Apply(call, input, state->output);
}

absl::StatusOr<ConstMatrix> DropoutLayer::BackwardInput(const LayerCall& call,
                                                        ConstMatrix output_gradient,
                                                        bool want_input_gradient,
                                                        LayerState* state) const {
  if (!want_input_gradient) return ConstMatrix();
  return Apply(call, output_gradient, state->input_gradient);
}

}  // namespace sangam
