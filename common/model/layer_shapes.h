#ifndef SANGAM_COMMON_MODEL_LAYER_SHAPES_H_
#define SANGAM_COMMON_MODEL_LAYER_SHAPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/model.pb.h"

namespace sangam {

// Of one sample, without the batch dimension.
using Shape = std::vector<uint64_t>;

// "[2,3]".
std::string ShapeText(const Shape& shape);

// Product of a shape whose dimensions and product have been checked.
uint64_t Elements(const Shape& shape);

// Name of block `index`, its default included.
std::string BlockName(const v1::ModelSpec& model, int index);

// First of the first `blocks` blocks that is called `name`.
std::optional<int> FindBlock(const v1::ModelSpec& model, int blocks, const std::string& name);

// Index of the block's first layer that is an embedding.
std::optional<int> FindEmbedding(const v1::BlockSpec& block);

// Where a layer stands: a tied head's shape depends on the blocks in front.
struct LayerPlace {
  const v1::ModelSpec* model = nullptr;
  int block = 0;
};

// Shape after `layer`.
// REQUIRES: CheckLayers finds no fault.
Shape OutputShape(const LayerPlace& place, const v1::LayerSpec& layer, const Shape& input);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_LAYER_SHAPES_H_
