#include "common/model/layer_shapes.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

Shape WindowOutput(const WindowSpec& window, const Shape& input, uint64_t channels) {
  const auto places = [&window](uint64_t size, uint64_t kernel) {
    return (size + 2 * window.padding - kernel) / window.stride + 1;
  };
  return {places(input[0], window.kernel_height), places(input[1], window.kernel_width), channels};
}

}  // namespace

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

std::vector<const Layers*> ChainsWithin(const v1::LayerSpec& layer) {
  if (layer.has_residual()) return {&layer.residual().layer(), &layer.residual().shortcut()};
  std::vector<const Layers*> chains;
  for (const v1::ConcatSpec::Branch& branch : layer.concat().branch()) {
    chains.push_back(&branch.layer());
  }
  return chains;
}

WindowSpec WindowOf(const v1::LayerSpec& layer, const Shape& input) {
  // 0 means that the user said nothing.
  const auto said = [](uint64_t value, uint64_t by_default) {
    return value == 0 ? by_default : value;
  };
  if (layer.has_conv2d()) {
    const v1::Conv2dSpec& conv = layer.conv2d();
    return {conv.kernel_height(), said(conv.kernel_width(), conv.kernel_height()),
            said(conv.stride(), 1), conv.padding()};
  }
  if (layer.has_max_pool2d()) {
    const v1::MaxPool2dSpec& pool = layer.max_pool2d();
    return {pool.kernel(), pool.kernel(), said(pool.stride(), pool.kernel()), pool.padding()};
  }
  const v1::AveragePool2dSpec& pool = layer.average_pool2d();
  if (pool.kernel() == 0) return {input[0], input[1], 1, 0};
  return {pool.kernel(), pool.kernel(), said(pool.stride(), pool.kernel()), pool.padding()};
}

Shape OutputShape(const LayerPlace& place, const Layers& layers, Shape input) {
  for (const v1::LayerSpec& layer : layers) input = OutputShape(place, layer, input);
  return input;
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
    case v1::LayerSpec::kConv2D:
      return WindowOutput(WindowOf(layer, input), input, layer.conv2d().out_channels());
    case v1::LayerSpec::kMaxPool2D:
    case v1::LayerSpec::kAveragePool2D:
      return WindowOutput(WindowOf(layer, input), input, input[2]);
    case v1::LayerSpec::kResidual:
      return OutputShape(place, layer.residual().layer(), input);
    case v1::LayerSpec::kConcat: {
      Shape output = input;
      output.back() = 0;
      for (const Layers* const branch : ChainsWithin(layer)) {
        const Shape of_branch = OutputShape(place, *branch, input);
        const uint64_t width = output.back() + of_branch.back();
        output = of_branch;
        output.back() = width;
      }
      return output;
    }
    case v1::LayerSpec::kRelu:
    case v1::LayerSpec::kGelu:
    case v1::LayerSpec::kTanh:
    case v1::LayerSpec::kDropout:
    case v1::LayerSpec::kPositionEmbedding:
    case v1::LayerSpec::kRmsNorm:
    case v1::LayerSpec::kCausalAttention:
    case v1::LayerSpec::kTransformer:
    case v1::LayerSpec::kSigmoid:
    case v1::LayerSpec::kBatchNorm:
    case v1::LayerSpec::kLayerNorm:
    case v1::LayerSpec::KIND_NOT_SET:
      break;
  }
  return input;
}

}  // namespace sangam
