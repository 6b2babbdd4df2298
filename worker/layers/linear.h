#ifndef SANGAM_WORKER_LAYERS_LINEAR_H_
#define SANGAM_WORKER_LAYERS_LINEAR_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

// y = x W^T + b, or y = relu(x W^T + b), of each position of a sample. With d the gradient of y
// (where y > 0, for relu): dx = d W, dW = d^T x, db = sum of the rows of d.
class LinearLayer : public Layer {
 public:
  struct Options {
    int64_t positions = 1;
    int64_t in_features = 0;
    int64_t out_features = 0;
    // First element within the segment: W [out_features, in_features], b [out_features].
    int64_t weight_offset = 0;
    std::optional<int64_t> bias_offset;
    bool relu = false;
  };

  explicit LinearLayer(const Options& options) : options_(options) {}

  LayerDemand demand() const override;
  bool has_parameters() const override { return true; }
  bool awaits_weights() const override { return true; }
  bool rows_stand_alone() const override { return options_.positions == 1; }
  absl::StatusOr<ConstMatrix> Forward(const LayerCall& call, ConstMatrix input,
                                      LayerState* state) const override;
  absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& call, ConstMatrix output_gradient,
                                            bool want_input_gradient,
                                            LayerState* state) const override;
  absl::Status BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                               LayerState* state) const override;

 private:
  // Who is told, or asked, of the elements of the first `rows` rows of W so far.
  struct Told {
    const std::function<absl::Status(uint64_t first, uint64_t count)>* whom;
    int64_t rows;
  };
  absl::Status TellRows(Told* told, int64_t rows) const;
  ConstMatrix Weight(const LayerCall& call) const;
  // Samples as rows of positions.
  ConstMatrix Rows(ConstMatrix samples, int64_t features) const {
    return {samples.data, samples.rows * options_.positions, features};
  }

  Options options_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_LINEAR_H_
