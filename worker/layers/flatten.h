#ifndef SANGAM_WORKER_LAYERS_FLATTEN_H_
#define SANGAM_WORKER_LAYERS_FLATTEN_H_

#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

// Turns samples of any shape into vectors. A sample is a row of its elements already, so nothing
// moves: the output is the input.
class FlattenLayer : public Layer {
 public:
  LayerDemand demand() const override { return {}; }
  bool rows_stand_alone() const override { return true; }
  bool moves(bool /*training*/) const override { return false; }
  absl::StatusOr<ConstMatrix> Forward(const LayerCall& /*call*/, ConstMatrix input,
                                      LayerState* /*state*/) const override {
    return input;
  }
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& /*call*/, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            LayerState* /*state*/) const override {
    return want_input_gradient ? output_gradient : ConstMatrix();
  }
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_FLATTEN_H_
