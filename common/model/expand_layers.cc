#include "common/model/expand_layers.h"

#include <cstdint>

#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

constexpr float kNormEpsilon = 1e-5f;
constexpr float kBatchNormMomentum = 0.1f;
constexpr float kRotaryBase = 10000;
constexpr uint64_t kHiddenPerWidth = 4;

void AddNorm(Layers* layers) { layers->Add()->mutable_rms_norm()->set_epsilon(kNormEpsilon); }

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

void ResolveWindow(const WindowSpec& window, v1::LayerSpec* layer) {
  const auto stride = static_cast<uint32_t>(window.stride);
  if (layer->has_conv2d()) {
    layer->mutable_conv2d()->set_kernel_width(static_cast<uint32_t>(window.kernel_width));
    layer->mutable_conv2d()->set_stride(stride);
  } else if (layer->has_max_pool2d()) {
    layer->mutable_max_pool2d()->set_stride(stride);
  } else if (layer->average_pool2d().kernel() != 0) {
    layer->mutable_average_pool2d()->set_stride(stride);
  }
}

void Expand(const LayerPlace& place, const Layers& layers, Shape shape, Layers* out) {
  for (const v1::LayerSpec& layer : layers) {
    switch (layer.kind_case()) {
      case v1::LayerSpec::kTransformer:
        ExpandTransformer(layer.transformer(), shape.back(), out);
        break;
      case v1::LayerSpec::kResidual: {
        v1::ResidualSpec* residual = out->Add()->mutable_residual();
        Expand(place, layer.residual().layer(), shape, residual->mutable_layer());
        Expand(place, layer.residual().shortcut(), shape, residual->mutable_shortcut());
        break;
      }
      case v1::LayerSpec::kRmsNorm: {
        v1::RmsNormSpec* norm = out->Add()->mutable_rms_norm();
        *norm = layer.rms_norm();
        if (!norm->has_epsilon()) norm->set_epsilon(kNormEpsilon);
        break;
      }
      case v1::LayerSpec::kLayerNorm: {
        v1::LayerNormSpec* norm = out->Add()->mutable_layer_norm();
        *norm = layer.layer_norm();
        if (!norm->has_epsilon()) norm->set_epsilon(kNormEpsilon);
        break;
      }
      case v1::LayerSpec::kBatchNorm: {
        v1::BatchNormSpec* norm = out->Add()->mutable_batch_norm();
        *norm = layer.batch_norm();
        if (!norm->has_epsilon()) norm->set_epsilon(kNormEpsilon);
        if (!norm->has_momentum()) norm->set_momentum(kBatchNormMomentum);
        break;
      }
      case v1::LayerSpec::kConv2D:
      case v1::LayerSpec::kMaxPool2D:
      case v1::LayerSpec::kAveragePool2D:
        *out->Add() = layer;
        ResolveWindow(WindowOf(layer, shape), &(*out)[out->size() - 1]);
        break;
      case v1::LayerSpec::kConcat: {
        v1::ConcatSpec* concat = out->Add()->mutable_concat();
        for (const Layers* const branch : ChainsWithin(layer)) {
          Expand(place, *branch, shape, concat->add_branch()->mutable_layer());
        }
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
  if (!layer.has_transformer()) {
    uint64_t count = 1;
    for (const Layers* const chain : ChainsWithin(layer)) count += CountAll(*chain);
    return count;
  }
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
    shape = OutputShape({&model, b}, model.block(b).layer(), shape);
  }
  return expanded;
}

}  // namespace sangam
