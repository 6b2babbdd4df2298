#ifndef SANGAM_WORKER_LAYERS_LAYER_NORM_H_
#define SANGAM_WORKER_LAYERS_LAYER_NORM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

// y = gain * (x - mean) / sqrt(variance + epsilon) + bias of each position of a sample (Ba et al.
// 2016).
class LayerNormLayer : public Layer {
 public:
  struct Options {
    int64_t positions = 1;
    int64_t width = 0;
    float epsilon = 0;
    // First elements within the segment; both [width].
    int64_t gain_offset = 0;
    int64_t bias_offset = 0;
  };

  explicit LayerNormLayer(const Options& options) : options_(options) {}

  LayerDemand demand() const override;
  bool has_parameters() const override { return true; }
  absl::StatusOr<ConstMatrix> Forward(const LayerCall& call, ConstMatrix input,
                                      LayerState* state) const override;
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& call, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            LayerState* state) const override;
  absl::Status BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                               LayerState* state) const override;

 private:
  // Samples as rows of positions.
  ConstMatrix Rows(ConstMatrix samples) const {
    return {samples.data, samples.rows * options_.positions, options_.width};
  }

  Options options_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_LAYER_NORM_H_
