#ifndef SANGAM_WORKER_LAYERS_LAYER_FACTORY_H_
#define SANGAM_WORKER_LAYERS_LAYER_FACTORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/model.pb.h"
#include "worker/layers/layer_chain.h"

namespace sangam {

// Makes the layers of block `index` of the model; their parameters lie where the layout says.
// Errors: InvalidArgument  layers that do not fit, or not the layout
absl::StatusOr<LayerChain> MakeLayers(const v1::ModelSpec& model, const v1::ModelLayout& layout,
                                      uint32_t index);

}  // namespace sangam

#endif  // SANGAM_WORKER_LAYERS_LAYER_FACTORY_H_
