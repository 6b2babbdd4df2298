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

// y = s(x) + f(x), f the layers within and s the shortcut's, or the identity. dx = s'(x) dy + f'(x)
// dy.
class ResidualLayer : public Layer {
 public:
  // Elements of one sample of the input and of the output. No layers in `shortcut`: the identity.
  ResidualLayer(int64_t in, int64_t out, LayerChain within, LayerChain shortcut)
      : in_(in), out_(out), within_(std::move(within)), shortcut_(std::move(shortcut)) {}

  LayerDemand demand() const override;
  bool has_parameters() const override {
    return within_.has_parameters() || shortcut_.has_parameters();
  }
  absl::StatusOr<ConstMatrix> Forward(const LayerCall& call, ConstMatrix input,
                                      LayerState* state) const override;
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& call, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            LayerState* state) const override;
  absl::Status BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                               LayerState* state) const override;

 private:
  int64_t in_;
  int64_t out_;
  LayerChain within_;
  LayerChain shortcut_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_RESIDUAL_H_
