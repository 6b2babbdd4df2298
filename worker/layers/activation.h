#ifndef SANGAM_WORKER_LAYERS_ACTIVATION_H_
#define SANGAM_WORKER_LAYERS_ACTIVATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

// y = f(x), elementwise: relu, gelu, tanh or sigmoid.
class ActivationLayer : public Layer {
 public:
  // `size`: elements of one sample.
  ActivationLayer(Activation activation, int64_t size) : activation_(activation), size_(size) {}

  LayerDemand demand() const override;
  bool rows_stand_alone() const override { return true; }
  absl::StatusOr<ConstMatrix> Forward(const LayerCall& call, ConstMatrix input,
                                      LayerState* state) const override;
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& call, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            LayerState* state) const override;

 private:
  Activation activation_;
  int64_t size_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_ACTIVATION_H_
