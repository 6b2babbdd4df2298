#include "common/model/expand_layers.h"

#include <cstdint>

#include "common/model/layer_shapes.h"
#include "google/protobuf/repeated_field.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

using Layers = google::protobuf::RepeatedPtrField<v1::LayerSpec>;

constexpr float kRmsNormEpsilon = 1e-5f;
constexpr float kRotaryBase = 10000;
constexpr uint64_t kHiddenPerWidth = 4;

void AddNorm(Layers* layers) { layers->Add()->mutable_rms_norm()->set_epsilon(kRmsNormEpsilon); }

void AddLinear(const v1::TransformerSpec& spec, uint64_t out_features, Layers* layers) {
  v1::LinearSpec* linear = layers->Add()->mutable_linear();
  linear->set_out_features(out_features);
  linear->set_no_bias(spec.no_bias());
}

void AddDropout(const v1::TransformerSpec& spec, Layers* layers) {
  if (spec.dropout() != 0) layers->Add()->mutable_dropout()->set_rate(spec.dropout());
}

void ExpandTransformer(const v1::TransformerSpec& spec, uint64_t width, Layers* out) {
  Layers* attention = out->Add()->mutable_residual()->mutable_layer();
  AddNorm(attention);
  v1::CausalAttentionSpec* heads = attention->Add()->mutable_causal_attention();
  heads->set_heads(spec.heads());
  heads->set_rotary(spec.rotary());
  heads->set_rotary_base(kRotaryBase);
  heads->set_no_bias(spec.no_bias());
  AddDropout(spec, attention);

  Layers* wide = out->Add()->mutable_residual()->mutable_layer();
  AddNorm(wide);
  AddLinear(spec, spec.hidden() == 0 ? kHiddenPerWidth * width : spec.hidden(), wide);
  wide->Add()->mutable_gelu();
  AddLinear(spec, width, wide);
  AddDropout(spec, wide);
}

void Expand(const LayerPlace& place, const Layers& layers, Shape shape, Layers* out) {
  for (const v1::LayerSpec& layer : layers) {
    switch (layer.kind_case()) {
      case v1::LayerSpec::kTransformer:
        ExpandTransformer(layer.transformer(), shape.back(), out);
        break;
      case v1::LayerSpec::kResidual:
        Expand(place, layer.residual().layer(), shape,
               out->Add()->mutable_residual()->mutable_layer());
        break;
      case v1::LayerSpec::kRmsNorm: {
        v1::RmsNormSpec* norm = out->Add()->mutable_rms_norm();
        *norm = layer.rms_norm();
        if (!norm->has_epsilon()) norm->set_epsilon(kRmsNormEpsilon);
        break;
      }
      case v1::LayerSpec::kCausalAttention: {
        v1::CausalAttentionSpec* attention = out->Add()->mutable_causal_attention();
        *attention = layer.causal_attention();
        if (!attention->has_rotary_base()) attention->set_rotary_base(kRotaryBase);
        break;
      }
      default:
        *out->Add() = layer;
        break;
    }
    shape = OutputShape(place, layer, shape);
  }
}

uint64_t CountAll(const Layers& layers) {
  uint64_t count = 0;
  for (const v1::LayerSpec& layer : layers) count += CountLayers(layer);
  return count;
}

}  // namespace

uint64_t CountLayers(const v1::LayerSpec& layer) {
  if (layer.has_residual()) return 1 + CountAll(layer.residual().layer());
  if (!layer.has_transformer()) return 1;
  // The width changes what the layers are, not how many they are.
  Layers layers;
  ExpandTransformer(layer.transformer(), 1, &layers);
  return CountAll(layers);
}

uint64_t CountLayers(const v1::BlockSpec& block) { return CountAll(block.layer()); }

v1::BlockSpec ExpandBlock(const v1::ModelSpec& model, int index, const Shape& input) {
  v1::BlockSpec block = model.block(index);
  block.clear_layer();
  Expand({&model, index}, model.block(index).layer(), input, block.mutable_layer());
  return block;
}

v1::ModelSpec ExpandModel(const v1::ModelSpec& model) {
  v1::ModelSpec expanded = model;
  Shape shape(model.input_shape().begin(), model.input_shape().end());
  for (int b = 0; b < model.block_size(); ++b) {
    *expanded.mutable_block(b) = ExpandBlock(model, b, shape);
    expanded.mutable_block(b)->set_name(BlockName(model, b));
    for (const v1::LayerSpec& layer : model.block(b).layer()) {
      shape = OutputShape({&model, b}, layer, shape);
    }
  }
  return expanded;
}

}  // namespace sangam
