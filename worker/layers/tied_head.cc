#include "worker/layers/tied_head.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/linear.h"

namespace sangam {

namespace {

LinearLayer::Options LinearOptions(const TiedHeadLayer::Options& options) {
  LinearLayer::Options linear;
  linear.positions = options.positions;
  linear.in_features = options.width;
  linear.out_features = options.vocabulary;
  linear.weight_offset = options.table_offset;
  return linear;
}

// The call as the layer on the tied segment sees it.
LayerCall OnTied(LayerCall call) {
  call.weights = call.tied;
  call.arrival = nullptr;  // speaks of the own segment
  return call;
}

}  // namespace

TiedHeadLayer::TiedHeadLayer(const Options& options)
    : options_(options), linear_(LinearOptions(options)) {}

LayerDemand TiedHeadLayer::demand() const {
  return TiedHeadDemand(options_.positions, options_.width, options_.vocabulary);
}

absl::StatusOr<ConstMatrix> TiedHeadLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                   LayerState* state) const {
  return linear_.Forward(OnTied(call), input, state);
}

absl::StatusOr<ConstMatrix> TiedHeadLayer::BackwardInput(const LayerCall& call,
                                                         ConstMatrix output_gradient,
                                                         bool want_input_gradient,
                                                         LayerState* state) const {
  return linear_.BackwardInput(OnTied(call), output_gradient, want_input_gradient, state);
}

absl::Status TiedHeadLayer::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                            LayerState* state) const {
  if (!gradients.accumulate) {
    const int64_t table_end = options_.table_offset + options_.vocabulary * options_.width;
    RETURN_IF_ERROR(call.backend->Fill(0, {gradients.tied, 1, options_.table_offset}));
    RETURN_IF_ERROR(
        call.backend->Fill(0, {gradients.tied + table_end, 1, options_.segment_size - table_end}));
  }
  LayerGradients tied = gradients;
  tied.own = gradients.tied;
  tied.progress = nullptr;
  return linear_.BackwardWeights(OnTied(call), tied, state);
}

}  // namespace sangam
