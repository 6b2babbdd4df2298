#include "common/model/layer_nodes.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

// What the layers of chain `c` within a layer are called by, in front of their index.
std::string ChainName(const LayerNode& node, size_t c) {
  if (node.spec->has_concat()) return absl::StrCat(node.name, ".", c);
  return c == 0 ? node.name : absl::StrCat(node.name, ".s");
}

std::vector<LayerNode> Nodes(const LayerPlace& place, const Layers& layers,
                             const std::string& prefix, Shape shape, uint32_t* next_number) {
  std::vector<LayerNode> nodes;
  for (int i = 0; i < layers.size(); ++i) {
    LayerNode node;
    node.spec = &layers.Get(i);
    node.name = absl::StrCat(prefix, ".", i);
    node.number = (*next_number)++;
    node.input = shape;
    node.output = OutputShape(place, *node.spec, shape);
    shape = node.output;
    const std::vector<const Layers*> chains = ChainsWithin(*node.spec);
    for (size_t c = 0; c < chains.size(); ++c) {
      node.chains.push_back(Nodes(place, *chains[c], ChainName(node, c), node.input, next_number));
    }
    const bool multiplies = node.spec->has_linear() || node.spec->has_conv2d();
    if (multiplies && i + 1 < layers.size() && layers.Get(i + 1).has_relu()) {
      node.then_relu = true;
      ++*next_number;
      ++i;
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

std::vector<LayerNode> LayerNodes(const LayerPlace& place, const v1::BlockSpec& block,
                                  const Shape& input, uint32_t first_number) {
  return Nodes(place, block.layer(), BlockName(*place.model, place.block), input, &first_number);
}

}  // namespace sangam
