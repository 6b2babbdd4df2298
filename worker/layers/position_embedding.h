#ifndef SANGAM_WORKER_LAYERS_POSITION_EMBEDDING_H_
#define SANGAM_WORKER_LAYERS_POSITION_EMBEDDING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

// y[t] = x[t] + P[t] for each position t of a sample. dx = dy, dP = sum of the samples of dy.
class PositionEmbeddingLayer : public Layer {
 public:
  struct Options {
    int64_t positions = 0;
    int64_t width = 0;
    // First element within the segment: P [positions, width].
    int64_t table_offset = 0;
  };

  explicit PositionEmbeddingLayer(const Options& options) : options_(options) {}

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
  Options options_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_POSITION_EMBEDDING_H_
