#ifndef SANGAM_WORKER_LAYERS_LAYER_H_
#define SANGAM_WORKER_LAYERS_LAYER_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"
#include "worker/layers/pass_context.h"
#include "worker/layers/segment_progress.h"

namespace sangam {

// What every step of a pass through one layer is given.
struct LayerCall {
  Backend* backend = nullptr;
  const PassContext* context = nullptr;
  // In the backend's memory: the block's whole segment, and the one that it shares with an earlier
  // block.
  const float* weights = nullptr;
  const float* tied = nullptr;
  // Not nullptr, only in Forward and where the backend computes at once: `weights` may be on their
  // way yet.
  const WeightsArrival* arrival = nullptr;
};

// Where the gradients with respect to the segments go; same length.
struct LayerGradients {
  float* own = nullptr;
  float* tied = nullptr;
  // True: add to what is there; else overwrite.
  bool accumulate = false;
  // How the sums over rows are bracketed, where the rows are several micro-batches; nullptr: as
  // they come.
  const std::vector<RowTerm>* terms = nullptr;
  // Not nullptr, only where the backend computes at once: what this pass leaves is final, and
  // layers may tell as they go.
  const GradientProgress* progress = nullptr;
};

// What one layer keeps of one micro-batch.
struct LayerState {
  // Memory as demanded, times the largest number of rows; not to be used where none was demanded.
  float* output = nullptr;
  float* kept = nullptr;
  float* delta = nullptr;
  float* input_gradient = nullptr;
  // Set by Forward: what it was given.
  ConstMatrix input;
  // Set by BackwardInput: the gradient that BackwardWeights multiplies with. Either `delta` or what
  // BackwardInput was given, which must then stay unchanged until BackwardWeights.
  ConstMatrix weighted_gradient;
  // Of the layers within this one or of the chains of layers, as in LayerDemand.
  std::vector<LayerState> inner;
};

// One layer, or a layer with the activation behind it. Immutable: many lanes may share it, each
// with its own Backend and LayerState. Matrices are [rows, size of one sample]; rows may be 0.
//
// Backward is in two parts, so that a pipeline schedule may send a gradient on before it computes
// those of the weights: BackwardInput first, BackwardWeights at any later time before the next
// Forward with the same state.
//
// Errors: those of Backend.
class Layer {
 public:
  virtual ~Layer() = default;

  virtual LayerDemand demand() const = 0;
  virtual bool has_parameters() const { return false; }
  // Whether a row's results depend on this row alone, and on nothing that layers do with all rows
  // of a micro-batch, where the backend's rows stand alone; and BackwardWeights heeds `terms`.
  virtual bool rows_stand_alone() const { return false; }
  // Whether Forward asks call.arrival itself; else whoever calls it has.
  virtual bool awaits_weights() const { return false; }
  // False: Forward returns its input.
  virtual bool moves(bool training) const {
    (void)training;
    return true;
  }

  // The output lies in the state, or is the input itself.
  virtual absl::StatusOr<ConstMatrix> Forward(const LayerCall& call, ConstMatrix input,
                                              LayerState* state) const = 0;

  // output_gradient: gradient of the loss sum with respect to the output. The gradient with respect
  // to the input lies in the state, or is the output's itself; empty when it is not wanted (only
  // layers with parameters are asked then).
  virtual absl::StatusOr<ConstMatrix> BackwardInput(const LayerCall& call,
                                                    ConstMatrix output_gradient,
                                                    bool want_input_gradient,
                                                    LayerState* state) const = 0;

  // Adds the gradient of the layer's parameters to their places in `gradients`, or overwrites them;
  // nothing else of the own segment is touched.
  virtual absl::Status BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                       LayerState* state) const {
    (void)call, (void)gradients, (void)state;
    return absl::OkStatus();
  }
};

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_LAYER_H_
