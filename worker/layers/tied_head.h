#ifndef SANGAM_WORKER_LAYERS_TIED_HEAD_H_
#define SANGAM_WORKER_LAYERS_TIED_HEAD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/linear.h"

namespace sangam {

// y = x E^T of each position of a sample, E the table of an earlier block's embedding (Press & Wolf
// 2017). Its gradient goes to the tied segment's; parameters there that are not E have none.
class TiedHeadLayer : public Layer {
 public:
  struct Options {
    int64_t positions = 0;
    int64_t width = 0;
    int64_t vocabulary = 0;
    // Within the tied segment: E [vocabulary, width] begins here, and the segment's length.
    int64_t table_offset = 0;
    int64_t segment_size = 0;
  };

  explicit TiedHeadLayer(const Options& options);

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
  LinearLayer linear_;  // on the tied segment
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_TIED_HEAD_H_
