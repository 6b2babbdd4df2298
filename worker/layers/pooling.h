#ifndef SANGAM_WORKER_LAYERS_POOLING_H_
#define SANGAM_WORKER_LAYERS_POOLING_H_

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

enum class Pooling { kMax, kAverage };

// Largest element or mean of each window over an image, for each channel.
class PoolingLayer : public Layer {
 public:
  PoolingLayer(Pooling pooling, const WindowShape& shape) : pooling_(pooling), shape_(shape) {}

  LayerDemand demand() const override;
  absl::StatusOr<ConstMatrix> Forward(const LayerCall& call, ConstMatrix input,
                                      LayerState* state) const override;
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& call, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            LayerState* state) const override;

 private:
  Pooling pooling_;
  WindowShape shape_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_POOLING_H_
