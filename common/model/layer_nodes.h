#ifndef SANGAM_COMMON_MODEL_LAYER_NODES_H_
#define SANGAM_COMMON_MODEL_LAYER_NODES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"

namespace sangam {

// One layer as it is computed: what the layout is made from and what workers make layers from.
struct LayerNode {
  const v1::LayerSpec* spec = nullptr;  // lives as long as the block that the node was made from
  std::string name;                     // "<block>.<index>"; within others see below
  // Among all layers of the model, in the order in which they begin: a residual or concat, then
  // those within it.
  uint32_t number = 0;
  Shape input;
  Shape output;
  bool then_relu = false;  // linear or conv2d, computed together with the relu behind it
  // As ChainsWithin says. Names: of a residual's layers "<name>.<index>", of its shortcut's
  // "<name>.s.<index>", of a concat's "<name>.<branch>.<index>".
  std::vector<std::vector<LayerNode>> chains;
};

// The nodes of `block`, which stands at `place`; `first_number`: layers in front of it in the
// model. REQUIRES: made by ExpandBlock; CheckLayers finds no fault.
std::vector<LayerNode> LayerNodes(const LayerPlace& place, const v1::BlockSpec& block,
                                  const Shape& input, uint32_t first_number);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_LAYER_NODES_H_
