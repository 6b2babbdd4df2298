#include "common/model/layer_shapes.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "proto/model.pb.h"

namespace sangam {

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

uint64_t Elements(const Shape& shape) {
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) elements *= dimension;
  return elements;
}

std::string BlockName(const v1::ModelSpec& model, int index) {
  const std::string& name = model.block(index).name();
  return name.empty() ? absl::StrCat("block", index) : name;
}

std::optional<int> FindBlock(const v1::ModelSpec& model, int blocks, const std::string& name) {
  for (int b = 0; b < blocks; ++b) {
    if (BlockName(model, b) == name) return b;
  }
  return std::nullopt;
}

std::optional<int> FindEmbedding(const v1::BlockSpec& block) {
  for (int i = 0; i < block.layer_size(); ++i) {
    if (block.layer(i).has_embedding()) return i;
  }
  return std::nullopt;
}

Shape OutputShape(const LayerPlace& place, const v1::LayerSpec& layer, const Shape& input) {
  switch (layer.kind_case()) {
    case v1::LayerSpec::kLinear: {
      Shape output = input;
      output.back() = layer.linear().out_features();
      return output;
    }
    case v1::LayerSpec::kFlatten:
      return {Elements(input)};
    case v1::LayerSpec::kEmbedding:
      return {input[0], layer.embedding().width()};
    case v1::LayerSpec::kTiedHead: {
      const std::optional<int> block =
          FindBlock(*place.model, place.block, layer.tied_head().block());
      SANGAM_CHECK(block.has_value());
      const v1::BlockSpec& with_table = place.model->block(*block);
      const std::optional<int> table = FindEmbedding(with_table);
      SANGAM_CHECK(table.has_value());
      return {input[0], with_table.layer(*table).embedding().vocabulary()};
    }
    case v1::LayerSpec::kRelu:
    case v1::LayerSpec::kGelu:
    case v1::LayerSpec::kTanh:
    case v1::LayerSpec::kDropout:
    case v1::LayerSpec::kPositionEmbedding:
    case v1::LayerSpec::kRmsNorm:
    case v1::LayerSpec::kCausalAttention:
    case v1::LayerSpec::kResidual:
    case v1::LayerSpec::kTransformer:
    case v1::LayerSpec::KIND_NOT_SET:
    default:
      break;
  }
  return input;
}

}  // namespace sangam
