#ifndef SANGAM_TESTS_WORKER_LAYERS_LAYER_HARNESS_H_
#define SANGAM_TESTS_WORKER_LAYERS_LAYER_HARNESS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/model/layer_demand.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/layers/layer.h"
#include "worker/layers/pass_context.h"

namespace sangam::testing {

// Runs one layer, as a block does, on host vectors. Whatever fails is a failure of the test.
class LayerHarness {
 public:
  // A layer from samples of `in` elements to samples of `out` elements with the given parameters,
  // whether they are its own or tied.
  LayerHarness(const Layer& layer, int64_t in, int64_t out, const std::vector<float>& weights);

  PassContext context;

  std::vector<float> Forward(const std::vector<float>& x);

  // Goes back through the last Forward; empty when the gradient is not wanted.
  std::vector<float> BackwardInput(const std::vector<float>& dy, bool want_input_gradient = true);

  // The gradient of the weights, where `before` stood.
  std::vector<float> BackwardWeights(bool accumulate, const std::vector<float>& before);

 private:
  LayerCall Call() const;
  float* Piece(int64_t size_of_sample);
  void MakeState(const LayerDemand& demand, LayerState* state);

  const Layer& layer_;
  int64_t in_;
  int64_t out_;
  std::unique_ptr<Backend> backend_;
  DeviceMatrix weights_;
  std::vector<std::unique_ptr<DeviceMatrix>> pieces_;
  LayerState state_;
  // Kept alive between the passes, as a block's neighbours do.
  std::unique_ptr<DeviceMatrix> x_;
  std::unique_ptr<DeviceMatrix> dy_;
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_LAYERS_LAYER_HARNESS_H_
