#ifndef SANGAM_WORKER_LAYERS_CONCAT_H_
#define SANGAM_WORKER_LAYERS_CONCAT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/layer_chain.h"

namespace sangam {

// The outputs of several chains of layers over the same input, side by side along the last
// dimension. The gradient of the input is the sum of theirs, in order.
class ConcatLayer : public Layer {
 public:
  struct Branch {
    LayerChain layers;  // none: the input itself
    int64_t width = 0;  // last dimension of its output
  };

  // `size`: elements of one sample of the input; `positions`: how often a sample of the output has
  // the last dimension. REQUIRES: at least two branches.
  ConcatLayer(int64_t size, int64_t positions, std::vector<Branch> branches);

  LayerDemand demand() const override;
  bool has_parameters() const override;
  absl::StatusOr<ConstMatrix> Forward(const LayerCall& call, ConstMatrix input,
                                      LayerState* state) const override;
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& call, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            LayerState* state) const override;
  absl::Status BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                               LayerState* state) const override;

 private:
  int64_t size_;
  int64_t positions_;
  std::vector<Branch> branches_;
  int64_t width_ = 0;  // of all branches
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_CONCAT_H_
