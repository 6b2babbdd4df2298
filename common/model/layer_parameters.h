#ifndef SANGAM_COMMON_MODEL_LAYER_PARAMETERS_H_
#define SANGAM_COMMON_MODEL_LAYER_PARAMETERS_H_

#include <cstdint>

#include "common/model/layer_nodes.h"
#include "proto/model.pb.h"

namespace sangam {

// Appends the parameters of a layer, and of those within it, to `segment`. *next_parameter: index
// within the model of the next parameter. A tied head has none of its own.
void AddParameters(const LayerNode& node, uint32_t* next_parameter, v1::SegmentLayout* segment);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_LAYER_PARAMETERS_H_
