#ifndef SANGAM_WORKER_LAYERS_DROPOUT_H_
#define SANGAM_WORKER_LAYERS_DROPOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

// In training keeps each element with probability 1 - rate and scales what it keeps by
// 1 / (1 - rate); in evaluation the identity (Srivastava et al. 2014, in the "inverted" form).
// Backward draws the same numbers again from their address instead of keeping a mask.
class DropoutLayer : public Layer {
 public:
  struct Options {
    float rate = 0;      // in [0, 1)
    int64_t size = 0;    // elements of one sample
    uint32_t layer = 0;  // number of the layer within the model
  };

  explicit DropoutLayer(const Options& options) : options_(options) {}

  LayerDemand demand() const override;
  bool rows_stand_alone() const override { return true; }
  bool moves(bool training) const override;
  absl::StatusOr<ConstMatrix> Forward(const LayerCall& call, ConstMatrix input,
                                      LayerState* state) const override;
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& call, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            LayerState* state) const override;

 private:
  absl::StatusOr<ConstMatrix> Apply(const LayerCall& call, ConstMatrix in, float* out) const;

  Options options_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_DROPOUT_H_
