#ifndef SANGAM_WORKER_LAYERS_CONV2D_H_
#define SANGAM_WORKER_LAYERS_CONV2D_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

// y = W * x + b, or y = relu(W * x + b), * the cross-correlation of an image with a window for each
// output channel.
class Conv2dLayer : public Layer {
 public:
  struct Options {
    WindowShape shape;
    // First element within the segment: W [out_channels, kernel_height, kernel_width, channels],
    // b [out_channels].
    int64_t weight_offset = 0;
    std::optional<int64_t> bias_offset;
    bool relu = false;
  };

  explicit Conv2dLayer(const Options& options) : options_(options) {}

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
  // Elements of the weight for each output channel.
  int64_t Filter() const {
    return options_.shape.window.kernel_height * options_.shape.window.kernel_width *
           options_.shape.in.channels;
  }

  Options options_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_CONV2D_H_
