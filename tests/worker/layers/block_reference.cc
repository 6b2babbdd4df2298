#include "tests/worker/layers/block_reference.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/model/expand_layers.h"
#include "google/protobuf/repeated_field.h"
#include "proto/model.pb.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/block_harness.h"
#include "tests/worker/layers/sequence_ops.h"
#include "worker/layers/pass_context.h"

namespace sangam::testing {
namespace {

using Layers = google::protobuf::RepeatedPtrField<v1::LayerSpec>;

Values Sum(Values x, const Values& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

class Reference {
 public:
  Reference(const TestModel& model, const PassContext& context, const Values& weights,
            const Values& tied, size_t samples)
      : model_(model), context_(context), weights_(weights), tied_(tied), samples_(samples) {}

  // `x`: rows of `width` elements each; a sample is rows side by side.
  Values Chain(const Layers& layers, const std::string& prefix, size_t* width, Values x) {
    for (int i = 0; i < layers.size(); ++i) {
      const v1::LayerSpec& layer = layers.Get(i);
      const std::string name = prefix + "." + std::to_string(i);
      const uint32_t number = next_number++;
      if (layer.has_linear()) {
        x = Linear(name, layer.linear().out_features(), width, x);
      } else if (layer.has_residual()) {
        size_t within = *width;
        x = Sum(x, Chain(layer.residual().layer(), name, &within, x));
      } else if (layer.has_relu()) {
        x = Relu(x);
      } else if (layer.has_gelu()) {
        x = Gelu(x);
      } else if (layer.has_tanh()) {
        x = Tanh(x);
      } else if (layer.has_flatten()) {
        *width = samples_ == 0 ? 0 : x.size() / samples_;
      } else if (layer.has_dropout() && context_.training) {
        const DropoutPlace place = {context_.seed, context_.step, number, context_.first_position};
        const size_t cols = samples_ == 0 ? 0 : x.size() / samples_;
        x = Times(x, DropoutFactors(place, double{layer.dropout().rate()}, samples_, cols));
      } else if (layer.has_embedding()) {
        *width = layer.embedding().width();
        x = Lookup(Parameter(name + ".weight"), *width, x);
      } else if (layer.has_position_embedding()) {
        const Values table = Parameter(name + ".weight");
        for (size_t e = 0; e < x.size(); ++e) x[e] += table[e % table.size()];
      } else if (layer.has_rms_norm()) {
        x = RmsNorm(x, Parameter(name + ".gain"), double{layer.rms_norm().epsilon()});
      } else if (layer.has_causal_attention()) {
        x = CausalAttention(name, layer.causal_attention(), *width, x);
      } else if (layer.has_tied_head()) {
        const Values table = Tied();
        const LinearShape shape = {x.size() / *width, *width, table.size() / *width};
        x = LinearForward(shape, x, table, {});
        *width = shape.out;
      }
    }
    return x;
  }

  uint32_t next_number = 0;

 private:
  static Values Slice(const v1::SegmentLayout* segment, const std::string& name,
                      const Values& from) {
    if (segment == nullptr) return {};
    for (const v1::ParameterLayout& parameter : segment->parameter()) {
      if (parameter.name() != name) continue;
      const auto first = from.begin() + static_cast<ptrdiff_t>(parameter.offset());
      return {first, first + static_cast<ptrdiff_t>(parameter.element_count())};
    }
    return {};
  }

  // Empty when there is none.
  Values Parameter(const std::string& name) const {
    return Slice(model_.segment(), name, weights_);
  }

  Values Tied() const {
    for (const v1::ParameterLayout& parameter : model_.tied_segment()->parameter()) {
      // The tests' embeddings are the first layers of their blocks.
      if (parameter.name() == model_.layout.block(0).name() + ".0.weight") {
        return Slice(model_.tied_segment(), parameter.name(), tied_);
      }
    }
    SANGAM_CHECK(false);
    return {};
  }

  Values Linear(const std::string& name, size_t out, size_t* width, const Values& x) const {
    const LinearShape shape = {*width == 0 ? 0 : x.size() / *width, *width, out};
    *width = out;
    return LinearForward(shape, x, Parameter(name + ".weight"), Parameter(name + ".bias"));
  }

  static Values Lookup(const Values& table, size_t width, const Values& tokens) {
    Values y;
    for (const double token : tokens) {
      const auto first = table.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(token) * width);
      y.insert(y.end(), first, first + static_cast<ptrdiff_t>(width));
    }
    return y;
  }

  Values CausalAttention(const std::string& name, const v1::CausalAttentionSpec& spec, size_t width,
                         const Values& x) const {
    const size_t positions = samples_ == 0 ? 1 : x.size() / width / samples_;
    const HeadShape shape = {positions, width, spec.heads()};
    size_t columns = width;
    Values qkv = Linear(name + ".qkv", 3 * width, &columns, x);
    if (spec.rotary()) qkv = RotateHeads(shape, double{spec.rotary_base()}, std::move(qkv));
    return Linear(name + ".out", width, &width, HeadsAttention(shape, qkv));
  }

  const TestModel& model_;
  const PassContext& context_;
  const Values& weights_;
  const Values& tied_;
  size_t samples_;
};

}  // namespace

Values ReferenceForward(const TestModel& model, const PassContext& context, const Values& x,
                        const Values& weights, const Values& tied) {
  const v1::ModelSpec spec = ExpandModel(model.spec);
  const auto index = static_cast<int>(model.block);
  const v1::BlockLayout& layout = model.layout.block(index);
  Reference reference(model, context, weights, tied,
                      x.size() / static_cast<size_t>(model.input_size()));
  for (int b = 0; b < index; ++b) {
    reference.next_number += static_cast<uint32_t>(CountLayers(spec.block(b)));
  }
  size_t width = layout.input_shape(layout.input_shape_size() - 1);
  return reference.Chain(spec.block(index).layer(), layout.name(), &width, x);
}

}  // namespace sangam::testing
