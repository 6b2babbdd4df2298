#include "common/model/layer_nodes.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/layer_shapes.h"
#include "google/protobuf/repeated_field.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

using Layers = google::protobuf::RepeatedPtrField<v1::LayerSpec>;

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
    if (node.spec->has_residual()) {
      node.inner = Nodes(place, node.spec->residual().layer(), node.name, node.input, next_number);
    }
    if (node.spec->has_linear() && i + 1 < layers.size() && layers.Get(i + 1).has_relu()) {
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
