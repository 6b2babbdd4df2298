#ifndef SANGAM_WORKER_LAYERS_BATCH_NORM_H_
#define SANGAM_WORKER_LAYERS_BATCH_NORM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

// y = gain * (x - mean) / sqrt(variance + epsilon) + bias for each element of the last dimension
// (Ioffe & Szegedy 2015). In training mean and biased variance are those of the micro-batch's
// samples and positions, in evaluation the running statistics among the parameters.
//
// The running statistics follow the statistics of micro-batches as weights follow gradients: their
// "gradient" is a sum of mean and unbiased variance over the terms of the micro-batch's loss, so
// that the division by all terms of the step makes the mean over its samples.
class BatchNormLayer : public Layer {
 public:
  struct Options {
    int64_t positions = 1;
    int64_t width = 0;
    float epsilon = 0;
    // Of the loss, for each sample.
    uint64_t terms_per_sample = 1;
    // First elements within the segment; all [width].
    int64_t gain_offset = 0;
    int64_t bias_offset = 0;
    int64_t running_mean_offset = 0;
    int64_t running_variance_offset = 0;
  };

  explicit BatchNormLayer(const Options& options) : options_(options) {}

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
  ConstMatrix Parameter(const LayerCall& call, int64_t offset) const {
    return {call.weights + offset, 1, options_.width};
  }
  // Of the micro-batch.
  Matrix Mean(const LayerState& state) const { return {state.kept, 1, options_.width}; }
  Matrix Variance(const LayerState& state) const {
    return {state.kept + options_.width, 1, options_.width};
  }
  Matrix Sums(const LayerState& state) const { return {state.delta, 2, options_.width}; }

  Options options_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_BATCH_NORM_H_
