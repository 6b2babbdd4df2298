#ifndef SANGAM_WORKER_LAYERS_EMBEDDING_H_
#define SANGAM_WORKER_LAYERS_EMBEDDING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

// Row E[token] of a table for each token of a sample. Tokens are no function of weights: their
// gradient does not exist.
class EmbeddingLayer : public Layer {
 public:
  struct Options {
    int64_t positions = 0;
    int64_t vocabulary = 0;
    int64_t width = 0;
    // First element within the segment: E [vocabulary, width].
    int64_t table_offset = 0;
  };

  explicit EmbeddingLayer(const Options& options) : options_(options) {}

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

#endif  // SANGAM_WORKER_LAYERS_EMBEDDING_H_
