#include "common/model/layer_check.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/model/expand_layers.h"
#include "common/model/field_fault.h"
#include "common/model/layer_shapes.h"
#include "google/protobuf/repeated_field.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

using Layers = google::protobuf::RepeatedPtrField<v1::LayerSpec>;

// Multiplications of one layer for one sample.
constexpr uint64_t kMaxMultiplications = uint64_t{1} << 48;
// Every token must be exact in binary32.
constexpr uint64_t kMaxVocabulary = uint64_t{1} << 24;
constexpr int kMaxDepth = 16;

// Checks the layers of one block, one after the other.
class LayerChecker {
 public:
  LayerChecker(const LayerPlace& place, std::vector<FieldFault>* faults)
      : place_(place), faults_(faults) {}

  std::vector<Shape> Walk(const Layers& layers, Shape shape, const std::string& field, int depth) {
    std::vector<Shape> shapes;
    for (int i = 0; i < layers.size(); ++i) {
      const size_t before = faults_->size();
      Check(layers.Get(i), shape, absl::StrCat(field, ".layer[", i, "]"), depth);
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
      case v1::LayerSpec::kRmsNorm: {
        const v1::RmsNormSpec& norm = layer.rms_norm();
        if (norm.has_epsilon() && (!std::isfinite(norm.epsilon()) || !(norm.epsilon() > 0))) {
          Fault(absl::StrCat(field, ".rms_norm.epsilon"), "found ", norm.epsilon(),
                ", expected a finite number > 0");
        }
        return;
      }
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
        return;
      case v1::LayerSpec::KIND_NOT_SET:
      default:
        break;
    }
    Fault(field,
          "found an empty layer, expected linear, relu, gelu, tanh, flatten, dropout, embedding, "
          "position_embedding, rms_norm, causal_attention, residual, transformer or tied_head");
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

  void CheckResidual(const v1::ResidualSpec& residual, const Shape& input, const std::string& field,
                     int depth) {
    if (residual.layer().empty()) {
      Fault(absl::StrCat(field, ".layer"), "found 0 layers, expected at least 1");
      return;
    }
    if (depth == kMaxDepth) {
      Fault(field, "found a residual within ", depth, " others, expected at most ", kMaxDepth - 1);
      return;
    }
    const size_t before = faults_->size();
    const Shape output = Walk(residual.layer(), input, field, depth + 1).back();
    if (faults_->size() == before && output != input) {
      Fault(field, "found an output of shape ", ShapeText(output),
            " within, expected that of the input, ", ShapeText(input));
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
      default:
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
  return LayerChecker(place, faults).Walk(block.layer(), shape, field, 0);
}

}  // namespace sangam
