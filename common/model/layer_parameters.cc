#include "common/model/layer_parameters.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/model/layer_nodes.h"
#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

// Of the values of embeddings, as in GPT-2.
constexpr double kEmbeddingDeviation = 0.02;
// Linear layers: the bound is then 1 / sqrt(fan_in).
constexpr float kLinearGain = 1.0f / 3.0f;

v1::InitializerSpec ByFanIn() {
  v1::InitializerSpec initializer;
  initializer.mutable_fan_in()->set_gain(kLinearGain);
  return initializer;
}

// A uniform number on [-b, b) has variance b^2 / 3.
v1::InitializerSpec ByDeviation(double deviation) {
  v1::InitializerSpec initializer;
  initializer.mutable_uniform()->set_bound(static_cast<float>(deviation * std::sqrt(3.0)));
  return initializer;
}

v1::InitializerSpec Constant(float value) {
  v1::InitializerSpec initializer;
  initializer.mutable_constant()->set_value(value);
  return initializer;
}

// What the user said, else the layer's default.
v1::InitializerSpec Choose(const v1::InitializerSpec& said, const v1::InitializerSpec& by_default) {
  return said.kind_case() == v1::InitializerSpec::KIND_NOT_SET ? by_default : said;
}

struct Parameter {
  std::string name;
  Shape shape;
  uint64_t fan_in = 1;
  bool decay = false;
  v1::InitializerSpec initializer;
};

// Appends parameters to one segment.
class SegmentWriter {
 public:
  SegmentWriter(uint32_t* next_parameter, v1::SegmentLayout* segment)
      : next_parameter_(next_parameter), segment_(segment) {}

  void Add(const Parameter& parameter) {
    v1::ParameterLayout* layout = segment_->add_parameter();
    layout->set_name(parameter.name);
    for (const uint64_t dimension : parameter.shape) layout->add_shape(dimension);
    layout->set_offset(segment_->element_count());
    layout->set_element_count(Elements(parameter.shape));
    *layout->mutable_initializer() = parameter.initializer;
    layout->set_fan_in(parameter.fan_in);
    layout->set_parameter_index((*next_parameter_)++);
    layout->set_decay(parameter.decay);
    segment_->set_element_count(segment_->element_count() + layout->element_count());
  }

  // "<prefix>.weight" [out, in] and "<prefix>.bias" [out].
  void AddProjection(const std::string& prefix, uint64_t in, uint64_t out, bool no_bias,
                     const v1::InitializerSpec& weight, const v1::InitializerSpec& bias) {
    Add({absl::StrCat(prefix, ".weight"), {out, in}, in, true, Choose(weight, ByFanIn())});
    if (no_bias) return;
    Add({absl::StrCat(prefix, ".bias"), {out}, in, false, Choose(bias, ByFanIn())});
  }

 private:
  uint32_t* next_parameter_;
  v1::SegmentLayout* segment_;
};

}  // namespace

void AddParameters(const LayerNode& node, uint32_t* next_parameter, v1::SegmentLayout* segment) {
  SegmentWriter writer(next_parameter, segment);
  const uint64_t width = node.input.back();
  switch (node.spec->kind_case()) {
    case v1::LayerSpec::kLinear: {
      const v1::LinearSpec& linear = node.spec->linear();
      writer.AddProjection(node.name, width, linear.out_features(), linear.no_bias(),
                           linear.weight_initializer(), linear.bias_initializer());
      return;
    }
    case v1::LayerSpec::kEmbedding: {
      const v1::EmbeddingSpec& embedding = node.spec->embedding();
      writer.Add({absl::StrCat(node.name, ".weight"),
                  {embedding.vocabulary(), embedding.width()},
                  1,
                  true,
                  Choose(embedding.initializer(), ByDeviation(kEmbeddingDeviation))});
      return;
    }
    case v1::LayerSpec::kPositionEmbedding:
      writer.Add({absl::StrCat(node.name, ".weight"), node.input, 1, false,
                  Choose(node.spec->position_embedding().initializer(),
                         ByDeviation(kEmbeddingDeviation))});
      return;
    case v1::LayerSpec::kRmsNorm:
      writer.Add({absl::StrCat(node.name, ".gain"), {width}, 1, false, Constant(1)});
      return;
    case v1::LayerSpec::kCausalAttention: {
      const v1::CausalAttentionSpec& attention = node.spec->causal_attention();
      const v1::InitializerSpec bias;
      writer.AddProjection(absl::StrCat(node.name, ".qkv"), width, 3 * width, attention.no_bias(),
                           attention.weight_initializer(), bias);
      writer.AddProjection(absl::StrCat(node.name, ".out"), width, width, attention.no_bias(),
                           attention.weight_initializer(), bias);
      return;
    }
    case v1::LayerSpec::kResidual:
      for (const LayerNode& inner : node.inner) AddParameters(inner, next_parameter, segment);
      return;
    default:
      return;
  }
}

}  // namespace sangam
