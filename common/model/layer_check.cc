#include "common/model/layer_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/model/expand_layers.h"
#include "common/model/field_fault.h"
#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

// Multiplications of one layer for one sample.
constexpr uint64_t kMaxMultiplications = uint64_t{1} << 48;
// Every token must be exact in binary32.
constexpr uint64_t kMaxVocabulary = uint64_t{1} << 24;
// Sides and channels of an image, and of a window over it.
constexpr uint64_t kMaxSide = uint64_t{1} << 20;
constexpr int kMaxDepth = 16;

// Checks the layers of one block, one after the other.
class LayerChecker {
 public:
  LayerChecker(const LayerPlace& place, std::vector<FieldFault>* faults)
      : place_(place), faults_(faults) {}

  // `field`: the path of `layers`. Returns the shape after each.
  std::vector<Shape> Walk(const Layers& layers, Shape shape, const std::string& field, int depth) {
    std::vector<Shape> shapes;
    for (int i = 0; i < layers.size(); ++i) {
      const size_t before = faults_->size();
      Check(layers.Get(i), shape, absl::StrCat(field, "[", i, "]"), depth);
      if (faults_->size() == before) shape = OutputShape(place_, layers.Get(i), shape);
      if (!layers.Get(i).has_flatten()) tokens_ = false;
      shapes.push_back(shape);
    }
    return shapes;
  }

 private:
  template <typename... Message>
  void Fault(const std::string& field, const Message&... message) {
    faults_->push_back({field, absl::StrCat(message...)});
  }

  void Check(const v1::LayerSpec& layer, const Shape& input, const std::string& field, int depth) {
    switch (layer.kind_case()) {
      case v1::LayerSpec::kLinear:
        return CheckLinear(layer.linear(), input, absl::StrCat(field, ".linear"));
      case v1::LayerSpec::kDropout:
        return CheckRate(layer.dropout().rate(), absl::StrCat(field, ".dropout.rate"));
      case v1::LayerSpec::kEmbedding:
        return CheckEmbedding(layer.embedding(), input, absl::StrCat(field, ".embedding"), depth);
      case v1::LayerSpec::kPositionEmbedding: {
        const std::string path = absl::StrCat(field, ".position_embedding");
        CheckSequence(input, path);
        return CheckInitializer(layer.position_embedding().initializer(),
                                absl::StrCat(path, ".initializer"));
      }
      case v1::LayerSpec::kRmsNorm:
        return CheckEpsilon(layer.rms_norm(), absl::StrCat(field, ".rms_norm"));
      case v1::LayerSpec::kLayerNorm:
        return CheckEpsilon(layer.layer_norm(), absl::StrCat(field, ".layer_norm"));
      case v1::LayerSpec::kBatchNorm: {
        const v1::BatchNormSpec& norm = layer.batch_norm();
        const std::string path = absl::StrCat(field, ".batch_norm");
        CheckEpsilon(norm, path);
        if (norm.has_momentum() && !(norm.momentum() > 0 && norm.momentum() <= 1)) {
          Fault(absl::StrCat(path, ".momentum"), "found ", norm.momentum(),
                ", expected above 0 and at most 1");
        }
        return;
      }
      case v1::LayerSpec::kConv2D:
        return CheckConv2d(layer, input, absl::StrCat(field, ".conv2d"));
      case v1::LayerSpec::kMaxPool2D:
        return CheckPool(layer, layer.max_pool2d(), input, absl::StrCat(field, ".max_pool2d"));
      case v1::LayerSpec::kAveragePool2D:
        return CheckAveragePool(layer, input, absl::StrCat(field, ".average_pool2d"));
      case v1::LayerSpec::kConcat:
        return CheckConcat(layer.concat(), input, absl::StrCat(field, ".concat"), depth);
      case v1::LayerSpec::kCausalAttention:
        return CheckAttention(layer.causal_attention(), input,
                              absl::StrCat(field, ".causal_attention"));
      case v1::LayerSpec::kResidual:
        return CheckResidual(layer.residual(), input, absl::StrCat(field, ".residual"), depth);
      case v1::LayerSpec::kTransformer:
        return CheckTransformer(layer.transformer(), input, absl::StrCat(field, ".transformer"));
      case v1::LayerSpec::kTiedHead:
        return CheckTiedHead(layer.tied_head(), input, absl::StrCat(field, ".tied_head"));
      case v1::LayerSpec::kFlatten:
        if (Elements(input) > kMaxDimension) {
          Fault(absl::StrCat(field, ".flatten"), "found an input of shape ", ShapeText(input),
                ", expected at most ", kMaxDimension, " elements");
        }
        return;
      case v1::LayerSpec::kRelu:
      case v1::LayerSpec::kGelu:
      case v1::LayerSpec::kTanh:
      case v1::LayerSpec::kSigmoid:
        return;
      case v1::LayerSpec::KIND_NOT_SET:
        break;
    }
    Fault(field,
          "found an empty layer, expected linear, relu, gelu, tanh, sigmoid, flatten, dropout, "
          "embedding, position_embedding, rms_norm, layer_norm, batch_norm, causal_attention, "
          "conv2d, max_pool2d, average_pool2d, residual, concat, transformer or tied_head");
  }

  void CheckLinear(const v1::LinearSpec& linear, const Shape& input, const std::string& field) {
    if (input.size() > 2) {
      Fault(field, "found an input of shape ", ShapeText(input),
            ", expected [in_features] or [positions, in_features]; put a flatten layer in front");
    }
    CheckProduct(input, linear.out_features(), absl::StrCat(field, ".out_features"));
    CheckInitializer(linear.weight_initializer(), absl::StrCat(field, ".weight_initializer"));
    CheckInitializer(linear.bias_initializer(), absl::StrCat(field, ".bias_initializer"));
    if (linear.no_bias() && linear.has_bias_initializer()) {
      Fault(absl::StrCat(field, ".bias_initializer"),
            "found an initializer together with no_bias, expected only one of them");
    }
  }

  // Whether the rows of `input` may be multiplied with a matrix of `out` rows.
  bool CheckProduct(const Shape& input, uint64_t out, const std::string& field) {
    const uint64_t in = input.back();
    const uint64_t positions = Elements(input) / in;
    const bool good = out != 0 && out <= kMaxDimension && in <= kMaxElements / out &&
                      positions <= kMaxElements / out &&
                      positions <= kMaxMultiplications / (in * out);
    if (!good) {
      Fault(field, "found ", out, ", expected 1 to ", kMaxDimension, ", at most ", kMaxElements,
            " weights and outputs and at most ", kMaxMultiplications, " multiplications");
    }
    return good;
  }

  void CheckRate(float rate, const std::string& field) {
    if (!(rate >= 0 && rate < 1)) {
      Fault(field, "found ", rate, ", expected at least 0 and below 1");
    }
  }

  bool CheckSequence(const Shape& input, const std::string& field) {
    if (input.size() == 2) return true;
    Fault(field, "found an input of shape ", ShapeText(input), ", expected [positions, width]");
    return false;
  }

  void CheckEmbedding(const v1::EmbeddingSpec& embedding, const Shape& input,
                      const std::string& field, int depth) {
    if (!tokens_ || depth != 0 || place_.block != 0) {
      Fault(field,
            "found layers in front that are not flatten, expected the model's input: tokens have "
            "no gradient");
    }
    if (input.size() != 1) {
      Fault(field, "found an input of shape ", ShapeText(input), ", expected [positions]");
    }
    if (embedding.vocabulary() == 0 || embedding.vocabulary() > kMaxVocabulary) {
      Fault(absl::StrCat(field, ".vocabulary"), "found ", embedding.vocabulary(),
            ", expected 1 to ", kMaxVocabulary);
    }
    const uint64_t width = embedding.width();
    if (width == 0 || width > kMaxDimension || embedding.vocabulary() > kMaxElements / width ||
        Elements(input) > kMaxElements / width) {
      Fault(absl::StrCat(field, ".width"), "found ", width, ", expected 1 to ", kMaxDimension,
            " and at most ", kMaxElements, " weights and outputs");
    }
    CheckInitializer(embedding.initializer(), absl::StrCat(field, ".initializer"));
  }

  // Returns whether the heads divide the width.
  bool CheckHeads(uint32_t heads, bool rotary, uint64_t width, const std::string& field) {
    if (heads == 0 || width % heads != 0) {
      Fault(absl::StrCat(field, ".heads"), "found ", heads,
            ", expected a number that divides the width of ", width);
      return false;
    }
    if (rotary && width / heads % 2 != 0) {
      Fault(absl::StrCat(field, ".rotary"), "found heads of width ", width / heads,
            ", expected an even width");
      return false;
    }
    return true;
  }

  // Scores and values, and the projections.
  bool CheckAttentionSize(const Shape& input, const std::string& field) {
    const uint64_t positions = input[0];
    if (Elements(input) > kMaxMultiplications / positions) {
      Fault(field, "found an input of shape ", ShapeText(input), ", expected at most ",
            kMaxMultiplications, " multiplications");
      return false;
    }
    // Queries, keys and values side by side are the widest.
    return CheckProduct(input, 3 * input[1], field);
  }

  void CheckAttention(const v1::CausalAttentionSpec& attention, const Shape& input,
                      const std::string& field) {
    CheckInitializer(attention.weight_initializer(), absl::StrCat(field, ".weight_initializer"));
    if (attention.has_rotary_base() &&
        (!std::isfinite(attention.rotary_base()) || !(attention.rotary_base() > 1))) {
      Fault(absl::StrCat(field, ".rotary_base"), "found ", attention.rotary_base(),
            ", expected a finite number > 1");
    }
    if (!CheckSequence(input, field)) return;
    CheckHeads(attention.heads(), attention.rotary(), input[1], field);
    CheckAttentionSize(input, field);
  }

  void CheckTransformer(const v1::TransformerSpec& transformer, const Shape& input,
                        const std::string& field) {
    CheckRate(transformer.dropout(), absl::StrCat(field, ".dropout"));
    if (!CheckSequence(input, field)) return;
    CheckHeads(transformer.heads(), transformer.rotary(), input[1], field);
    if (!CheckAttentionSize(input, field)) return;
    const bool by_default = transformer.hidden() == 0;
    CheckProduct(input, by_default ? 4 * input[1] : transformer.hidden(),
                 absl::StrCat(field, ".hidden"));
  }

  template <typename Norm>
  void CheckEpsilon(const Norm& norm, const std::string& field) {
    if (norm.has_epsilon() && (!std::isfinite(norm.epsilon()) || !(norm.epsilon() > 0))) {
      Fault(absl::StrCat(field, ".epsilon"), "found ", norm.epsilon(),
            ", expected a finite number > 0");
    }
  }

  bool CheckImage(const Shape& input, const std::string& field) {
    const bool good =
        input.size() == 3 && *std::max_element(input.begin(), input.end()) <= kMaxSide;
    if (!good) {
      Fault(field, "found an input of shape ", ShapeText(input),
            ", expected [height, width, channels], each at most ", kMaxSide);
    }
    return good;
  }

  bool CheckStride(uint64_t stride, const std::string& field) {
    if (stride <= kMaxSide) return true;
    Fault(absl::StrCat(field, ".stride"), "found ", stride, ", expected at most ", kMaxSide);
    return false;
  }

  // Whether a window of the padded image's size or less moves over an image.
  bool CheckKernel(uint64_t kernel, uint64_t padding, uint64_t size, const std::string& field) {
    const uint64_t most = std::min(size + 2 * padding, kMaxSide);
    if (kernel > 0 && kernel <= most) return true;
    Fault(field, "found ", kernel, ", expected 1 to ", most,
          ", the size of the image with its padding");
    return false;
  }

  // Whether a window layer's multiplications and outputs are few enough, with `out_channels` for
  // each place of the window, each of which reads `read` channels.
  bool CheckWindowSize(const WindowSpec& window, const Shape& input, uint64_t read,
                       uint64_t out_channels, const std::string& field) {
    const uint64_t rows =
        (input[0] + 2 * window.padding - window.kernel_height) / window.stride + 1;
    const uint64_t cols = (input[1] + 2 * window.padding - window.kernel_width) / window.stride + 1;
    const absl::uint128 outputs = absl::uint128(rows) * cols * out_channels;
    const absl::uint128 of_window =
        absl::uint128(window.kernel_height) * window.kernel_width * read;
    const bool good = rows <= kMaxDimension && cols <= kMaxDimension && outputs <= kMaxElements &&
                      of_window <= kMaxElements && of_window * out_channels <= kMaxElements &&
                      of_window * outputs <= kMaxMultiplications;
    if (!good) {
      Fault(field, "found an input of shape ", ShapeText(input), " and windows of ",
            window.kernel_height, " x ", window.kernel_width, ", expected at most ", kMaxElements,
            " weights and outputs and at most ", kMaxMultiplications, " operations");
    }
    return good;
  }

  void CheckConv2d(const v1::LayerSpec& layer, const Shape& input, const std::string& field) {
    const v1::Conv2dSpec& conv = layer.conv2d();
    CheckInitializer(conv.weight_initializer(), absl::StrCat(field, ".weight_initializer"));
    CheckInitializer(conv.bias_initializer(), absl::StrCat(field, ".bias_initializer"));
    if (conv.no_bias() && conv.has_bias_initializer()) {
      Fault(absl::StrCat(field, ".bias_initializer"),
            "found an initializer together with no_bias, expected only one of them");
    }
    const size_t before = faults_->size();
    if (conv.out_channels() == 0 || conv.out_channels() > kMaxSide) {
      Fault(absl::StrCat(field, ".out_channels"), "found ", conv.out_channels(), ", expected 1 to ",
            kMaxSide);
    }
    if (!CheckImage(input, field) || !CheckStride(conv.stride(), field)) return;
    const WindowSpec window = WindowOf(layer, input);
    const uint64_t padding = window.padding;
    // A width that follows the height has its faults, too.
    if (CheckKernel(window.kernel_height, padding, input[0],
                    absl::StrCat(field, ".kernel_height")) ||
        conv.kernel_width() != 0) {
      CheckKernel(window.kernel_width, padding, input[1], absl::StrCat(field, ".kernel_width"));
    }
    const uint64_t smaller = std::min(window.kernel_height, window.kernel_width);
    if (padding != 0 && padding >= smaller) {
      Fault(absl::StrCat(field, ".padding"), "found ", padding,
            ", expected less than the kernel's ", smaller);
    }
    if (faults_->size() == before) {
      CheckWindowSize(window, input, input[2], conv.out_channels(), field);
    }
  }

  template <typename Pool>
  void CheckPool(const v1::LayerSpec& layer, const Pool& pool, const Shape& input,
                 const std::string& field) {
    if (!CheckImage(input, field) || !CheckStride(pool.stride(), field)) return;
    const size_t before = faults_->size();
    if (pool.padding() > pool.kernel() / 2) {
      Fault(absl::StrCat(field, ".padding"), "found ", pool.padding(),
            ", expected at most half of the kernel's ", pool.kernel());
    }
    const uint64_t smaller = std::min(input[0], input[1]);
    CheckKernel(pool.kernel(), pool.padding(), smaller, absl::StrCat(field, ".kernel"));
    if (faults_->size() == before) {
      CheckWindowSize(WindowOf(layer, input), input, 1, input[2], field);
    }
  }

  void CheckAveragePool(const v1::LayerSpec& layer, const Shape& input, const std::string& field) {
    const v1::AveragePool2dSpec& pool = layer.average_pool2d();
    if (pool.kernel() != 0) return CheckPool(layer, pool, input, field);
    if (!CheckImage(input, field)) return;
    if (pool.stride() != 0) {
      Fault(absl::StrCat(field, ".stride"), "found ", pool.stride(),
            ", expected none without a kernel: one window covers the whole image");
    }
    if (pool.padding() != 0) {
      Fault(absl::StrCat(field, ".padding"), "found ", pool.padding(),
            ", expected none without a kernel: one window covers the whole image");
    }
  }

  bool CheckDepth(int depth, const std::string& field) {
    if (depth < kMaxDepth) return true;
    Fault(field, "found layers within ", depth, " others, expected at most ", kMaxDepth - 1);
    return false;
  }

  // The shape behind `layers`, or that in front of them where there are none.
  Shape WalkWithin(const Layers& layers, const Shape& input, const std::string& field,
                   const std::string& name, int depth) {
    const std::vector<Shape> shapes =
        Walk(layers, input, absl::StrCat(field, ".", name), depth + 1);
    return shapes.empty() ? input : shapes.back();
  }

  void CheckResidual(const v1::ResidualSpec& residual, const Shape& input, const std::string& field,
                     int depth) {
    if (residual.layer().empty()) {
      Fault(absl::StrCat(field, ".layer"), "found 0 layers, expected at least 1");
      return;
    }
    if (!CheckDepth(depth, field)) return;
    const size_t before = faults_->size();
    const Shape output = WalkWithin(residual.layer(), input, field, "layer", depth);
    const Shape shortcut = WalkWithin(residual.shortcut(), input, field, "shortcut", depth);
    if (faults_->size() != before || output == shortcut) return;
    if (residual.shortcut().empty()) {
      Fault(field, "found an output of shape ", ShapeText(output),
            " within, expected that of the input, ", ShapeText(input));
    } else {
      Fault(absl::StrCat(field, ".shortcut"), "found an output of shape ", ShapeText(shortcut),
            ", expected that of the layers, ", ShapeText(output));
    }
  }

  void CheckConcat(const v1::ConcatSpec& concat, const Shape& input, const std::string& field,
                   int depth) {
    const int branches = concat.branch_size();
    if (branches < 2 || branches > static_cast<int>(kMaxLayersPerBlock)) {
      Fault(absl::StrCat(field, ".branch"), "found ", branches, " branches, expected 2 to ",
            kMaxLayersPerBlock);
      return;
    }
    if (!CheckDepth(depth, field)) return;
    const size_t before = faults_->size();
    std::vector<Shape> shapes;
    for (int b = 0; b < branches; ++b) {
      shapes.push_back(WalkWithin(concat.branch(b).layer(), input,
                                  absl::StrCat(field, ".branch[", b, "]"), "layer", depth));
    }
    if (faults_->size() != before) return;
    uint64_t width = 0;
    for (int b = 0; b < branches; ++b) {
      const Shape& shape = shapes[static_cast<size_t>(b)];
      width += shape.back();
      if (shape.size() == shapes[0].size() &&
          std::equal(shape.begin(), shape.end() - 1, shapes[0].begin())) {
        continue;
      }
      Fault(absl::StrCat(field, ".branch[", b, "]"), "found an output of shape ", ShapeText(shape),
            ", expected that of branch[0], ", ShapeText(shapes[0]), ", but for the last dimension");
    }
    if (faults_->size() != before) return;
    const uint64_t rows = Elements(shapes[0]) / shapes[0].back();
    if (width > kMaxDimension || rows > kMaxElements / width) {
      Fault(field, "found outputs that are ", width, " wide in all, expected at most ",
            kMaxDimension, " and at most ", kMaxElements, " elements");
    }
  }

  void CheckTiedHead(const v1::TiedHeadSpec& head, const Shape& input, const std::string& field) {
    if (has_tied_head_) {
      Fault(field, "found a second one in the block, expected at most one");
    }
    has_tied_head_ = true;
    const std::optional<int> block = FindBlock(*place_.model, place_.block, head.block());
    const std::optional<int> table =
        block.has_value() ? FindEmbedding(place_.model->block(*block)) : std::nullopt;
    if (!table.has_value()) {
      Fault(absl::StrCat(field, ".block"), "found \"", head.block(),
            "\", expected the name of an earlier block with an embedding layer");
      return;
    }
    const v1::EmbeddingSpec& embedding = place_.model->block(*block).layer(*table).embedding();
    if (!CheckSequence(input, field)) return;
    if (input[1] != embedding.width()) {
      Fault(field, "found an input of shape ", ShapeText(input),
            ", expected [positions, width] with the embedding's width of ", embedding.width());
      return;
    }
    CheckProduct(input, embedding.vocabulary(), field);
  }

  void CheckInitializer(const v1::InitializerSpec& spec, const std::string& field) {
    switch (spec.kind_case()) {
      case v1::InitializerSpec::kUniform:
        if (!(spec.uniform().bound() >= 0) || !std::isfinite(spec.uniform().bound())) {
          Fault(absl::StrCat(field, ".uniform.bound"), "found ", spec.uniform().bound(),
                ", expected a finite number >= 0");
        }
        break;
      case v1::InitializerSpec::kFanIn:
        if (!(spec.fan_in().gain() > 0) || !std::isfinite(spec.fan_in().gain())) {
          Fault(absl::StrCat(field, ".fan_in.gain"), "found ", spec.fan_in().gain(),
                ", expected a finite number > 0");
        }
        break;
      case v1::InitializerSpec::kConstant:
        if (!std::isfinite(spec.constant().value())) {
          Fault(absl::StrCat(field, ".constant.value"), "found ", spec.constant().value(),
                ", expected a finite number");
        }
        break;
      case v1::InitializerSpec::KIND_NOT_SET:
        break;  // The layer's default.
    }
  }

  LayerPlace place_;
  std::vector<FieldFault>* faults_;
  bool tokens_ = true;  // nothing but flatten so far
  bool has_tied_head_ = false;
};

}  // namespace

bool CheckShape(const Shape& shape, const std::string& field, std::vector<FieldFault>* faults) {
  if (shape.empty()) {
    faults->push_back({field, "found nothing, expected the shape of one sample, such as 784"});
    return false;
  }
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) {
    if (dimension == 0 || dimension > kMaxDimension || elements > kMaxElements / dimension) {
      faults->push_back(
          {field, absl::StrCat("found ", ShapeText(shape), ", expected dimensions of 1 to ",
                               kMaxDimension, " and at most ", kMaxElements, " elements")});
      return false;
    }
    elements *= dimension;
  }
  return true;
}

std::vector<Shape> CheckLayers(const LayerPlace& place, const Shape& shape,
                               const std::string& field, std::vector<FieldFault>* faults) {
  const v1::BlockSpec& block = place.model->block(place.block);
  const uint64_t layers = CountLayers(block);
  if (layers == 0 || layers > kMaxLayersPerBlock) {
    faults->push_back(
        {absl::StrCat(field, ".layer"),
         absl::StrCat("found ", layers, " layers, expected 1 to ", kMaxLayersPerBlock)});
    return {};
  }
  return LayerChecker(place, faults).Walk(block.layer(), shape, absl::StrCat(field, ".layer"), 0);
}

}  // namespace sangam
