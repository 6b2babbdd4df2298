#ifndef SANGAM_COMMON_MODEL_EXPAND_LAYERS_H_
#define SANGAM_COMMON_MODEL_EXPAND_LAYERS_H_

#include <cstdint>

#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"

namespace sangam {

// Layers that `layer` stands for, itself and those within it: what it takes of the model's numbers.
uint64_t CountLayers(const v1::LayerSpec& layer);
uint64_t CountLayers(const v1::BlockSpec& block);

// Block `index` of the model with every transformer layer replaced by the layers that it stands
// for, and with nothing left to its default but names and initializers. A block so made stays as it
// is. `input`: the shape in front of it.
// REQUIRES: CheckLayers finds no fault in the block.
v1::BlockSpec ExpandBlock(const v1::ModelSpec& model, int index, const Shape& input);

// The same with every block; names are set.
// REQUIRES: BuildModelLayout(model) is OK.
v1::ModelSpec ExpandModel(const v1::ModelSpec& model);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_EXPAND_LAYERS_H_
