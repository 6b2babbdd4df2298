#ifndef SANGAM_WORKER_LAYERS_LAYER_CHAIN_H_
#define SANGAM_WORKER_LAYERS_LAYER_CHAIN_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

// Layers in a row: those of a block, or within another layer. None: the identity. The states are
// the layers' own, in order. Immutable, as they are. Errors: theirs.
class LayerChain {
 public:
  LayerChain() = default;
  explicit LayerChain(std::vector<std::unique_ptr<Layer>> layers);

  const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  bool has_parameters() const { return first_with_parameters_ < layers_.size(); }
  bool rows_stand_alone() const;
  std::vector<LayerDemand> demands() const;

  absl::StatusOr<ConstMatrix> Forward(const LayerCall& call, ConstMatrix input,
                                      std::vector<LayerState>* states) const;

  // As Layer's; may also be asked when nothing has parameters and no gradient is wanted.
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& call, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            std::vector<LayerState>* states) const;
  absl::Status BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                               std::vector<LayerState>* states) const;

  // Both, layer by layer, while what they read is near; the same bits.
  absl::StatusOr<ConstMatrix> Backward(const LayerCall& call, ConstMatrix output_gradient,
                                       bool want_input_gradient, const LayerGradients& gradients,
                                       std::vector<LayerState>* states) const;

 private:
  // `gradients`: nullptr to leave the weights for later.
  absl::StatusOr<ConstMatrix> GoBack(const LayerCall& call, ConstMatrix gradient, bool want,
                                     const LayerGradients* gradients,
                                     std::vector<LayerState>* states) const;

  std::vector<std::unique_ptr<Layer>> layers_;
  size_t first_with_parameters_ = 0;  // their number when there is none
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_LAYER_CHAIN_H_
