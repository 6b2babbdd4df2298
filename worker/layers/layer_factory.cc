#include "worker/layers/layer_factory.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/model/expand_layers.h"
#include "common/model/field_fault.h"
#include "common/model/layer_check.h"
#include "common/model/layer_nodes.h"
#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"
#include "worker/backend/backend.h"
#include "worker/layers/activation.h"
#include "worker/layers/batch_norm.h"
#include "worker/layers/causal_attention.h"
#include "worker/layers/concat.h"
#include "worker/layers/conv2d.h"
#include "worker/layers/dropout.h"
#include "worker/layers/embedding.h"
#include "worker/layers/flatten.h"
#include "worker/layers/layer.h"
#include "worker/layers/layer_chain.h"
#include "worker/layers/layer_norm.h"
#include "worker/layers/linear.h"
#include "worker/layers/pooling.h"
#include "worker/layers/position_embedding.h"
#include "worker/layers/residual.h"
#include "worker/layers/rms_norm.h"
#include "worker/layers/tied_head.h"

namespace sangam {
namespace {

template <typename Dimensions>
Shape ToShape(const Dimensions& dimensions) {
  return {dimensions.begin(), dimensions.end()};
}

// The last dimension, and how often a sample has it.
int64_t Width(const Shape& shape) { return static_cast<int64_t>(shape.back()); }
int64_t Positions(const Shape& shape) {
  return static_cast<int64_t>(Elements(shape)) / Width(shape);
}

// Of a convolution or pooling.
WindowShape WindowShapeOf(const LayerNode& node) {
  const auto size = [](uint64_t value) { return static_cast<int64_t>(value); };
  const WindowSpec window = WindowOf(*node.spec, node.input);
  WindowShape shape;
  shape.in = {size(node.input[0]), size(node.input[1]), size(node.input[2])};
  shape.window = {size(window.kernel_height), size(window.kernel_width), size(window.stride),
                  size(window.padding)};
  shape.out_channels = size(node.output[2]);
  return shape;
}

// Makes layers and looks up their parameters.
class LayerFactory {
 public:
  LayerFactory(const v1::ModelSpec& model, const v1::ModelLayout& layout, uint32_t index)
      : model_(model),
        layout_(layout),
        block_(layout.block(static_cast<int>(index))),
        index_(static_cast<int>(index)) {}

  absl::StatusOr<LayerChain> MakeBlock() {
    const Shape input = ToShape(block_.input_shape());
    std::vector<FieldFault> faults;
    std::vector<Shape> outputs;
    if (CheckShape(input, "input_shape", &faults)) {
      outputs = CheckLayers({&model_, index_}, input, "block", &faults);
    }
    if (!faults.empty()) return Fault(ToStatus(faults).message());
    if (ToShape(block_.output_shape()) != outputs.back()) {
      return Fault(absl::StrCat("the layout says output ",
                                ShapeText(ToShape(block_.output_shape())), ", the layers give ",
                                ShapeText(outputs.back())));
    }
    if (block_.segment() >= layout_.segment_size() ||
        (block_.has_tied_segment() &&
         block_.tied_segment() >= static_cast<uint32_t>(layout_.segment_size()))) {
      return Fault("the layout has no such segment");
    }
    if (block_.segment() >= 0) segment_ = &layout_.segment(block_.segment());

    uint64_t first_number = 0;
    for (int b = 0; b < index_; ++b) first_number += CountLayers(model_.block(b));
    const v1::BlockSpec spec = ExpandBlock(model_, index_, input);
    ASSIGN_OR_RETURN(LayerChain chain, MakeChain(LayerNodes({&model_, index_}, spec, input,
                                                            static_cast<uint32_t>(first_number))));
    const int expected = segment_ == nullptr ? 0 : segment_->parameter_size();
    if (parameters_used_ != expected) {
      return Fault(absl::StrCat("the layout has ", expected, " parameters, the layers use ",
                                parameters_used_));
    }
    return chain;
  }

 private:
  absl::Status Fault(absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat("block \"", block_.name(), "\": ", message));
  }

  absl::StatusOr<LayerChain> MakeChain(const std::vector<LayerNode>& nodes) {
    std::vector<std::unique_ptr<Layer>> layers;
    for (const LayerNode& node : nodes) {
      ASSIGN_OR_RETURN(std::unique_ptr<Layer> layer, MakeLayer(node));
      layers.push_back(std::move(layer));
    }
    return LayerChain(std::move(layers));
  }

  absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(const LayerNode& node) {
    const auto size = static_cast<int64_t>(Elements(node.input));
    switch (node.spec->kind_case()) {
      case v1::LayerSpec::kLinear: {
        ASSIGN_OR_RETURN(
            LinearLayer::Options options,
            Projection(node.name, node.input, Width(node.output), node.spec->linear().no_bias()));
        options.relu = node.then_relu;
        return std::make_unique<LinearLayer>(options);
      }
      case v1::LayerSpec::kRelu:
        return std::make_unique<ActivationLayer>(Activation::kRelu, size);
      case v1::LayerSpec::kGelu:
        return std::make_unique<ActivationLayer>(Activation::kGelu, size);
      case v1::LayerSpec::kTanh:
        return std::make_unique<ActivationLayer>(Activation::kTanh, size);
      case v1::LayerSpec::kSigmoid:
        return std::make_unique<ActivationLayer>(Activation::kSigmoid, size);
      case v1::LayerSpec::kFlatten:
        return std::make_unique<FlattenLayer>();
      case v1::LayerSpec::kDropout: {
        DropoutLayer::Options options;
        options.rate = node.spec->dropout().rate();
        options.size = size;
        options.layer = node.number;
        return std::make_unique<DropoutLayer>(options);
      }
      case v1::LayerSpec::kEmbedding:
        return MakeEmbedding(node);
      case v1::LayerSpec::kPositionEmbedding: {
        PositionEmbeddingLayer::Options options;
        options.positions = Positions(node.input);
        options.width = Width(node.input);
        ASSIGN_OR_RETURN(options.table_offset,
                         ParameterOffset(absl::StrCat(node.name, ".weight"), node.input));
        return std::make_unique<PositionEmbeddingLayer>(options);
      }
      case v1::LayerSpec::kRmsNorm: {
        RmsNormLayer::Options options;
        options.positions = Positions(node.input);
        options.width = Width(node.input);
        options.epsilon = node.spec->rms_norm().epsilon();
        ASSIGN_OR_RETURN(options.gain_offset,
                         ParameterOffset(absl::StrCat(node.name, ".gain"), {node.input.back()}));
        return std::make_unique<RmsNormLayer>(options);
      }
      case v1::LayerSpec::kCausalAttention:
        return MakeAttention(node);
      case v1::LayerSpec::kLayerNorm:
        return MakeLayerNorm(node);
      case v1::LayerSpec::kBatchNorm:
        return MakeBatchNorm(node);
      case v1::LayerSpec::kConv2D:
        return MakeConv2d(node);
      case v1::LayerSpec::kMaxPool2D:
        return std::make_unique<PoolingLayer>(Pooling::kMax, WindowShapeOf(node));
      case v1::LayerSpec::kAveragePool2D:
        return std::make_unique<PoolingLayer>(Pooling::kAverage, WindowShapeOf(node));
      case v1::LayerSpec::kConcat:
        return MakeConcat(node);
      case v1::LayerSpec::kResidual: {
        ASSIGN_OR_RETURN(LayerChain within, MakeChain(node.chains[0]));
        ASSIGN_OR_RETURN(LayerChain shortcut, MakeChain(node.chains[1]));
        return std::make_unique<ResidualLayer>(size, static_cast<int64_t>(Elements(node.output)),
                                               std::move(within), std::move(shortcut));
      }
      case v1::LayerSpec::kTiedHead:
        return MakeTiedHead(node);
      case v1::LayerSpec::kTransformer:
      case v1::LayerSpec::KIND_NOT_SET:
        break;
    }
    return Fault(absl::StrCat("layer ", node.name, " is of no kind that can be computed"));
  }

  // A linear layer from the last dimension of `input` to `out` features.
  absl::StatusOr<LinearLayer::Options> Projection(const std::string& prefix, const Shape& input,
                                                  int64_t out, bool no_bias) {
    LinearLayer::Options options;
    options.positions = Positions(input);
    options.in_features = Width(input);
    options.out_features = out;
    const auto out_features = static_cast<uint64_t>(out);
    ASSIGN_OR_RETURN(options.weight_offset, ParameterOffset(absl::StrCat(prefix, ".weight"),
                                                            {out_features, input.back()}));
    if (!no_bias) {
      ASSIGN_OR_RETURN(options.bias_offset,
                       ParameterOffset(absl::StrCat(prefix, ".bias"), {out_features}));
    }
    return options;
  }

  absl::StatusOr<std::unique_ptr<Layer>> MakeEmbedding(const LayerNode& node) {
    const v1::EmbeddingSpec& embedding = node.spec->embedding();
    EmbeddingLayer::Options options;
    options.positions = Width(node.input);
    options.vocabulary = static_cast<int64_t>(embedding.vocabulary());
    options.width = static_cast<int64_t>(embedding.width());
    ASSIGN_OR_RETURN(options.table_offset,
                     ParameterOffset(absl::StrCat(node.name, ".weight"),
                                     {embedding.vocabulary(), embedding.width()}));
    return std::make_unique<EmbeddingLayer>(options);
  }

  absl::StatusOr<std::unique_ptr<Layer>> MakeAttention(const LayerNode& node) {
    const v1::CausalAttentionSpec& attention = node.spec->causal_attention();
    CausalAttentionLayer::Options options;
    options.heads = attention.heads();
    options.rotary = attention.rotary();
    options.rotary_base = attention.rotary_base();
    const int64_t width = Width(node.input);
    ASSIGN_OR_RETURN(options.qkv, Projection(absl::StrCat(node.name, ".qkv"), node.input, 3 * width,
                                             attention.no_bias()));
    ASSIGN_OR_RETURN(options.out, Projection(absl::StrCat(node.name, ".out"), node.input, width,
                                             attention.no_bias()));
    return std::make_unique<CausalAttentionLayer>(options);
  }

  absl::StatusOr<std::unique_ptr<Layer>> MakeLayerNorm(const LayerNode& node) {
    LayerNormLayer::Options options;
    options.positions = Positions(node.input);
    options.width = Width(node.input);
    options.epsilon = node.spec->layer_norm().epsilon();
    ASSIGN_OR_RETURN(options.gain_offset, OfWidth(node, "gain"));
    ASSIGN_OR_RETURN(options.bias_offset, OfWidth(node, "bias"));
    return std::make_unique<LayerNormLayer>(options);
  }

  absl::StatusOr<std::unique_ptr<Layer>> MakeBatchNorm(const LayerNode& node) {
    BatchNormLayer::Options options;
    options.positions = Positions(node.input);
    options.width = Width(node.input);
    options.epsilon = node.spec->batch_norm().epsilon();
    options.terms_per_sample = layout_.terms_per_sample();
    ASSIGN_OR_RETURN(options.gain_offset, OfWidth(node, "gain"));
    ASSIGN_OR_RETURN(options.bias_offset, OfWidth(node, "bias"));
    ASSIGN_OR_RETURN(options.running_mean_offset, OfWidth(node, "running_mean"));
    ASSIGN_OR_RETURN(options.running_variance_offset, OfWidth(node, "running_variance"));
    return std::make_unique<BatchNormLayer>(options);
  }

  absl::StatusOr<std::unique_ptr<Layer>> MakeConv2d(const LayerNode& node) {
    const v1::Conv2dSpec& conv = node.spec->conv2d();
    const WindowSpec window = WindowOf(*node.spec, node.input);
    Conv2dLayer::Options options;
    options.shape = WindowShapeOf(node);
    ASSIGN_OR_RETURN(options.weight_offset,
                     ParameterOffset(absl::StrCat(node.name, ".weight"),
                                     {conv.out_channels(), window.kernel_height,
                                      window.kernel_width, node.input.back()}));
    if (!conv.no_bias()) {
      ASSIGN_OR_RETURN(options.bias_offset,
                       ParameterOffset(absl::StrCat(node.name, ".bias"), {conv.out_channels()}));
    }
    options.relu = node.then_relu;
    return std::make_unique<Conv2dLayer>(options);
  }

  absl::StatusOr<std::unique_ptr<Layer>> MakeConcat(const LayerNode& node) {
    std::vector<ConcatLayer::Branch> branches;
    for (const std::vector<LayerNode>& chain : node.chains) {
      ConcatLayer::Branch branch;
      branch.width = Width(chain.empty() ? node.input : chain.back().output);
      ASSIGN_OR_RETURN(branch.layers, MakeChain(chain));
      branches.push_back(std::move(branch));
    }
    return std::make_unique<ConcatLayer>(static_cast<int64_t>(Elements(node.input)),
                                         Positions(node.output), std::move(branches));
  }

  // First element of a parameter of the input's last dimension.
  absl::StatusOr<int64_t> OfWidth(const LayerNode& node, absl::string_view parameter) {
    return ParameterOffset(absl::StrCat(node.name, ".", parameter), {node.input.back()});
  }

  absl::StatusOr<std::unique_ptr<Layer>> MakeTiedHead(const LayerNode& node) {
    if (!block_.has_tied_segment()) return Fault("the layout has no tied segment");
    const v1::SegmentLayout& segment = layout_.segment(static_cast<int>(block_.tied_segment()));
    const std::string& with_table = node.spec->tied_head().block();
    // Both are there: the layers have been checked.
    const int block = *FindBlock(model_, index_, with_table);
    const int layer = *FindEmbedding(model_.block(block));
    TiedHeadLayer::Options options;
    options.positions = Positions(node.input);
    options.width = Width(node.input);
    options.vocabulary = Width(node.output);
    options.segment_size = static_cast<int64_t>(segment.element_count());
    // Nothing in front of an embedding is expanded, so its index is the user's.
    ASSIGN_OR_RETURN(options.table_offset,
                     FindParameter(segment, absl::StrCat(with_table, ".", layer, ".weight"),
                                   {node.output.back(), node.input.back()}));
    return std::make_unique<TiedHeadLayer>(options);
  }

  // First element of a parameter within the block's segment.
  absl::StatusOr<int64_t> ParameterOffset(const std::string& name, const Shape& shape) {
    if (segment_ == nullptr) return Fault(absl::StrCat("the layout has no parameter ", name));
    ++parameters_used_;
    return FindParameter(*segment_, name, shape);
  }

  absl::StatusOr<int64_t> FindParameter(const v1::SegmentLayout& segment, const std::string& name,
                                        const Shape& shape) const {
    for (const v1::ParameterLayout& parameter : segment.parameter()) {
      if (parameter.name() != name) continue;
      const uint64_t elements = Elements(shape);
      if (ToShape(parameter.shape()) != shape || parameter.element_count() != elements) {
        return Fault(absl::StrCat("parameter ", name, " has shape ",
                                  ShapeText(ToShape(parameter.shape())), ", expected ",
                                  ShapeText(shape)));
      }
      if (parameter.offset() > segment.element_count() ||
          elements > segment.element_count() - parameter.offset()) {
        return Fault(absl::StrCat("parameter ", name, " ends beyond its segment of ",
                                  segment.element_count(), " elements"));
      }
      return static_cast<int64_t>(parameter.offset());
    }
    return Fault(absl::StrCat("the layout has no parameter ", name));
  }

  const v1::ModelSpec& model_;
  const v1::ModelLayout& layout_;
  const v1::BlockLayout& block_;
  int index_;
  const v1::SegmentLayout* segment_ = nullptr;
  int parameters_used_ = 0;
};

}  // namespace

absl::StatusOr<LayerChain> MakeLayers(const v1::ModelSpec& model, const v1::ModelLayout& layout,
                                      uint32_t index) {
  const auto blocks = static_cast<uint32_t>(model.block_size());
  if (index >= blocks || layout.block_size() != model.block_size()) {
    return absl::InvalidArgumentError(absl::StrCat("found a layout of ", layout.block_size(),
                                                   " blocks, expected ", blocks, ", and block ",
                                                   index, " among them"));
  }
  return LayerFactory(model, layout, index).MakeBlock();
}

}  // namespace sangam
