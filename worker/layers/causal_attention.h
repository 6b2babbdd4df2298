#ifndef SANGAM_WORKER_LAYERS_CAUSAL_ATTENTION_H_
#define SANGAM_WORKER_LAYERS_CAUSAL_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/linear.h"

namespace sangam {

// Multi-head scaled dot-product attention in which position t of a sample sees positions 0..t
// (Vaswani et al. 2017), with rotary positions (Su et al. 2021) when asked: a projection to
// queries, keys and values side by side, attention, and a projection of the heads side by side.
class CausalAttentionLayer : public Layer {
 public:
  struct Options {
    int64_t heads = 1;
    bool rotary = false;
    float rotary_base = 10000;
    // From [positions, width] to [positions, 3 width], and from there back.
    LinearLayer::Options qkv;
    LinearLayer::Options out;
  };

  explicit CausalAttentionLayer(const Options& options)
      : options_(options), qkv_(options.qkv), out_(options.out) {}

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
  AttentionShape shape() const;
  Rotation rotation(bool backward) const;

  Options options_;
  LinearLayer qkv_;
  LinearLayer out_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_CAUSAL_ATTENTION_H_
