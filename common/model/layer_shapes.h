#ifndef SANGAM_COMMON_MODEL_LAYER_SHAPES_H_
#define SANGAM_COMMON_MODEL_LAYER_SHAPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "google/protobuf/repeated_ptr_field.h"
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

using Layers = google::protobuf::RepeatedPtrField<v1::LayerSpec>;

// The chains of layers within a layer: of a residual its layers and its shortcut's (maybe none), of
// a concat its branches'. They live as long as `layer`.
std::vector<const Layers*> ChainsWithin(const v1::LayerSpec& layer);

// How far a window reaches and how it moves, its defaults resolved. As large as the image where
// the layer says so.
struct WindowSpec {
  uint64_t kernel_height = 0;
  uint64_t kernel_width = 0;
  uint64_t stride = 1;
  uint64_t padding = 0;
};
// Of a conv2d, max_pool2d or average_pool2d over an image of shape `input`.
WindowSpec WindowOf(const v1::LayerSpec& layer, const Shape& input);

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
// Shape after all of `layers`.
Shape OutputShape(const LayerPlace& place, const Layers& layers, Shape input);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_LAYER_SHAPES_H_
