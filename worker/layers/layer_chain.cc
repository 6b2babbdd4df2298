#include "worker/layers/layer_chain.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/segment_progress.h"

namespace sangam {

LayerChain::LayerChain(std::vector<std::unique_ptr<Layer>> layers) : layers_(std::move(layers)) {
  while (first_with_parameters_ < layers_.size() &&
         !layers_[first_with_parameters_]->has_parameters()) {
    ++first_with_parameters_;
  }
}

bool LayerChain::rows_stand_alone() const {
  return std::all_of(layers_.begin(), layers_.end(),
                     [](const auto& layer) { return layer->rows_stand_alone(); });
}

std::vector<LayerDemand> LayerChain::demands() const {
  std::vector<LayerDemand> demands;
  for (const std::unique_ptr<Layer>& layer : layers_) demands.push_back(layer->demand());
  return demands;
}

absl::StatusOr<ConstMatrix> LayerChain::Forward(const LayerCall& call, ConstMatrix input,
                                                std::vector<LayerState>* states) const {
  ConstMatrix value = input;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = *layers_[i];
    if (call.arrival != nullptr && layer.has_parameters() && !layer.awaits_weights()) {
      RETURN_IF_ERROR((*call.arrival)(0, kAllElements));
    }
    ASSIGN_OR_RETURN(value, layer.Forward(call, value, &(*states)[i]));
  }
  return value;
}

absl::StatusOr<ConstMatrix> LayerChain::GoBack(const LayerCall& call, ConstMatrix gradient,
                                               bool want, const LayerGradients* gradients,
                                               std::vector<LayerState>* states) const {
  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = *layers_[i];
    // Nothing in front of the first layer with parameters needs a gradient of its own.
    const bool want_here = want || i > first_with_parameters_;
    if (!want_here && !layer.has_parameters()) return ConstMatrix();
    ASSIGN_OR_RETURN(gradient, layer.BackwardInput(call, gradient, want_here, &(*states)[i]));
    if (gradients == nullptr) continue;
    RETURN_IF_ERROR(layer.BackwardWeights(call, *gradients, &(*states)[i]));
  }
  return gradient;
}

absl::StatusOr<ConstMatrix> LayerChain::BackwardInput(const LayerCall& call,
                                                      ConstMatrix output_gradient,
                                                      bool want_input_gradient,
                                                      std::vector<LayerState>* states) const {
  return GoBack(call, output_gradient, want_input_gradient, nullptr, states);
}

absl::StatusOr<ConstMatrix> LayerChain::Backward(const LayerCall& call, ConstMatrix output_gradient,
                                                 bool want_input_gradient,
                                                 const LayerGradients& gradients,
                                                 std::vector<LayerState>* states) const {
  return GoBack(call, output_gradient, want_input_gradient, &gradients, states);
}

absl::Status LayerChain::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                         std::vector<LayerState>* states) const {
  for (size_t i = layers_.size(); i-- > first_with_parameters_;) {
    RETURN_IF_ERROR(layers_[i]->BackwardWeights(call, gradients, &(*states)[i]));
  }
  return absl::OkStatus();
}

}  // namespace sangam
