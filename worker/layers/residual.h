#ifndef SANGAM_WORKER_LAYERS_RESIDUAL_H_
#define SANGAM_WORKER_LAYERS_RESIDUAL_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/layer_chain.h"

namespace sangam {

// y = x + f(x), f the layers within. dx = dy + f'(x) dy.
class ResidualLayer : public Layer {
 public:
  // `size`: elements of one sample.
  ResidualLayer(int64_t size, LayerChain within) : size_(size), within_(std::move(within)) {}

  LayerDemand demand() const override;
  bool has_parameters() const override { return within_.has_parameters(); }
  absl::StatusOr<ConstMatrix> Forward(const LayerCall& call, ConstMatrix input,
                                      LayerState* state) const override;
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& call, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            LayerState* state) const override;
  absl::Status BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                               LayerState* state) const override;

 private:
  int64_t size_;
  LayerChain within_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_RESIDUAL_H_
