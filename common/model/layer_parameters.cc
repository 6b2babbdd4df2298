#include "common/model/layer_parameters.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

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
  float average_rate = 0;
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
    layout->set_average_rate(parameter.average_rate);
    segment_->set_element_count(segment_->element_count() + layout->element_count());
  }

  // "<prefix>.gain" [width], 1 at first, and "<prefix>.bias" [width], 0 at first.
  void AddGainAndBias(const std::string& prefix, uint64_t width) {
    Add({absl::StrCat(prefix, ".gain"), {width}, 1, false, Constant(1)});
    Add({absl::StrCat(prefix, ".bias"), {width}, 1, false, Constant(0)});
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
    case v1::LayerSpec::kConv2D: {
      const v1::Conv2dSpec& conv = node.spec->conv2d();
      const WindowSpec window = WindowOf(*node.spec, node.input);
      const uint64_t fan_in = window.kernel_height * window.kernel_width * width;
      writer.Add({absl::StrCat(node.name, ".weight"),
                  {conv.out_channels(), window.kernel_height, window.kernel_width, width},
                  fan_in,
                  true,
                  Choose(conv.weight_initializer(), ByFanIn())});
      if (conv.no_bias()) return;
      writer.Add({absl::StrCat(node.name, ".bias"),
                  {conv.out_channels()},
                  fan_in,
                  false,
                  Choose(conv.bias_initializer(), ByFanIn())});
      return;
    }
    case v1::LayerSpec::kLayerNorm:
      writer.AddGainAndBias(node.name, width);
      return;
    case v1::LayerSpec::kBatchNorm: {
      const float rate = node.spec->batch_norm().momentum();
      writer.AddGainAndBias(node.name, width);
      writer.Add({absl::StrCat(node.name, ".running_mean"), {width}, 1, false, Constant(0), rate});
      writer.Add(
          {absl::StrCat(node.name, ".running_variance"), {width}, 1, false, Constant(1), rate});
      return;
    }
    case v1::LayerSpec::kResidual:
    case v1::LayerSpec::kConcat:
      for (const std::vector<LayerNode>& chain : node.chains) {
        for (const LayerNode& inner : chain) AddParameters(inner, next_parameter, segment);
      }
      return;
    case v1::LayerSpec::kRelu:
    case v1::LayerSpec::kGelu:
    case v1::LayerSpec::kTanh:
    case v1::LayerSpec::kSigmoid:
    case v1::LayerSpec::kFlatten:
    case v1::LayerSpec::kDropout:
    case v1::LayerSpec::kMaxPool2D:
    case v1::LayerSpec::kAveragePool2D:
    case v1::LayerSpec::kTiedHead:
    case v1::LayerSpec::kTransformer:
    case v1::LayerSpec::KIND_NOT_SET:
      return;
  }
}

}  // namespace sangam
