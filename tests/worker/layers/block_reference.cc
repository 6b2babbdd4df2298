#include "tests/worker/layers/block_reference.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/model/expand_layers.h"
#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"
#include "tests/testing/reference_images.h"
#include "tests/testing/reference_norms.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/block_harness.h"
#include "tests/worker/layers/sequence_ops.h"
#include "worker/layers/pass_context.h"

namespace sangam::testing {
namespace {

using Dimensions = std::vector<size_t>;

// The window of a layer over images of `shape`, which becomes that of its outputs.
ReferenceWindow WindowAt(const v1::LayerSpec& layer, Dimensions* shape) {
  ReferenceWindow window = {};
  window.height = (*shape)[0];
  window.width = (*shape)[1];
  window.channels = window.out_channels = (*shape)[2];
  const auto pool = [&window](const auto& spec) {
    window.kernel_height = window.kernel_width = spec.kernel();
    window.stride = spec.stride();
    window.padding = spec.padding();
  };
  if (layer.has_conv2d()) {
    const v1::Conv2dSpec& conv = layer.conv2d();
    window.kernel_height = conv.kernel_height();
    window.kernel_width = conv.kernel_width();
    window.stride = conv.stride();
    window.padding = conv.padding();
    window.out_channels = conv.out_channels();
  } else if (layer.has_max_pool2d()) {
    pool(layer.max_pool2d());
  } else if (layer.average_pool2d().kernel() != 0) {
    pool(layer.average_pool2d());
  } else {
    window.kernel_height = window.height;
    window.kernel_width = window.width;
    window.stride = 1;
  }
  *shape = {window.out_height(), window.out_width(), window.out_channels};
  return window;
}

Values Sum(Values x, const Values& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

class Reference {
 public:
  Reference(const TestModel& model, const PassContext& context, const Values& weights,
            const Values& tied, size_t samples)
      : model_(model), context_(context), weights_(weights), tied_(tied), samples_(samples) {}

  // `shape`: of a sample of `x`, which is rows of its last dimension side by side.
  Values Chain(const Layers& layers, const std::string& prefix, Dimensions* shape, Values x) {
    for (int i = 0; i < layers.size(); ++i) {
      const v1::LayerSpec& layer = layers.Get(i);
      const std::string name = prefix + "." + std::to_string(i);
      const uint32_t number = next_number++;
      size_t* const width = &shape->back();
      if (layer.has_linear()) {
        x = Linear(name, layer.linear().out_features(), width, x);
      } else if (layer.has_residual()) {
        Dimensions within = *shape;
        const Values y = Chain(layer.residual().layer(), name, &within, x);
        x = Sum(Chain(layer.residual().shortcut(), name + ".s", shape, x), y);
      } else if (layer.has_concat()) {
        x = Concat(layer.concat(), name, shape, x);
      } else if (layer.has_conv2d()) {
        x = Conv2d(WindowAt(layer, shape), x, Parameter(name + ".weight"),
                   Parameter(name + ".bias"));
      } else if (layer.has_max_pool2d()) {
        x = MaxPool2d(WindowAt(layer, shape), x);
      } else if (layer.has_average_pool2d()) {
        x = AveragePool2d(WindowAt(layer, shape), x);
      } else if (layer.has_batch_norm()) {
        x = BatchNorm(name, double{layer.batch_norm().epsilon()}, x);
      } else if (layer.has_layer_norm()) {
        x = LayerNorm(shape->back(), x, double{layer.layer_norm().epsilon()},
                      Parameter(name + ".gain"), Parameter(name + ".bias"));
      } else if (layer.has_sigmoid()) {
        x = Sigmoid(x);
      } else if (layer.has_relu()) {
        x = Relu(x);
      } else if (layer.has_gelu()) {
        x = Gelu(x);
      } else if (layer.has_tanh()) {
        x = Tanh(x);
      } else if (layer.has_flatten()) {
        *shape = {samples_ == 0 ? 0 : x.size() / samples_};
      } else if (layer.has_dropout() && context_.training) {
        const DropoutPlace place = {context_.seed, context_.step, number, context_.first_position};
        const size_t cols = samples_ == 0 ? 0 : x.size() / samples_;
        x = Times(x, DropoutFactors(place, double{layer.dropout().rate()}, samples_, cols));
      } else if (layer.has_embedding()) {
        shape->push_back(layer.embedding().width());
        x = Lookup(Parameter(name + ".weight"), shape->back(), x);
      } else if (layer.has_position_embedding()) {
        const Values table = Parameter(name + ".weight");
        for (size_t e = 0; e < x.size(); ++e) x[e] += table[e % table.size()];
      } else if (layer.has_rms_norm()) {
        x = RmsNorm(x, Parameter(name + ".gain"), double{layer.rms_norm().epsilon()});
      } else if (layer.has_causal_attention()) {
        x = CausalAttention(name, layer.causal_attention(), *width, x);
      } else if (layer.has_tied_head()) {
        const Values table = Tied();
        const LinearShape product = {x.size() / *width, *width, table.size() / *width};
        x = LinearForward(product, x, table, {});
        *width = product.out;
      }
    }
    return x;
  }

  uint32_t next_number = 0;
  // Sums for the running statistics, where they lie in the segment.
  Values statistics;

 private:
  Values Concat(const v1::ConcatSpec& concat, const std::string& name, Dimensions* shape,
                const Values& x) {
    std::vector<Values> parts;
    std::vector<size_t> widths;
    Dimensions of_branch;
    for (int b = 0; b < concat.branch_size(); ++b) {
      of_branch = *shape;
      parts.push_back(
          Chain(concat.branch(b).layer(), name + "." + std::to_string(b), &of_branch, x));
      widths.push_back(of_branch.back());
    }
    Values y;
    for (size_t row = 0; row < parts[0].size() / widths[0]; ++row) {
      for (size_t b = 0; b < parts.size(); ++b) {
        const auto first = parts[b].begin() + static_cast<ptrdiff_t>(row * widths[b]);
        y.insert(y.end(), first, first + static_cast<ptrdiff_t>(widths[b]));
      }
    }
    *shape = of_branch;
    shape->back() = std::accumulate(widths.begin(), widths.end(), size_t{0});
    return y;
  }

  Values BatchNorm(const std::string& name, double epsilon, const Values& x) {
    const Values gain = Parameter(name + ".gain");
    Moments moments = {Parameter(name + ".running_mean"), Parameter(name + ".running_variance")};
    if (context_.training) {
      moments = ColumnMoments(gain.size(), x);
      const auto values = static_cast<double>(x.size() / gain.size());
      const double unbiased = values > 1 ? values / (values - 1) : 1;
      const auto terms = static_cast<double>(samples_ * model_.layout.terms_per_sample());
      Note(name + ".running_mean", moments.mean, terms);
      Note(name + ".running_variance", moments.variance, terms * unbiased);
    }
    return NormalizeColumns(gain.size(), x, moments, epsilon, gain, Parameter(name + ".bias"));
  }

  void Note(const std::string& name, const Values& values, double weight) {
    statistics.resize(weights_.size(), 0.0);
    for (const v1::ParameterLayout& parameter : model_.segment()->parameter()) {
      if (parameter.name() != name) continue;
      for (size_t j = 0; j < values.size(); ++j) {
        statistics[parameter.offset() + j] = weight * values[j];
      }
    }
  }

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

namespace {

// Runs the block under test.
Values Run(const TestModel& model, const Values& x, Reference* reference) {
  const v1::ModelSpec spec = ExpandModel(model.spec);
  const auto index = static_cast<int>(model.block);
  const v1::BlockLayout& layout = model.layout.block(index);
  for (int b = 0; b < index; ++b) {
    reference->next_number += static_cast<uint32_t>(CountLayers(spec.block(b)));
  }
  Dimensions shape(layout.input_shape().begin(), layout.input_shape().end());
  return reference->Chain(spec.block(index).layer(), layout.name(), &shape, x);
}

size_t Samples(const TestModel& model, const Values& x) {
  return x.size() / static_cast<size_t>(model.input_size());
}

}  // namespace

Values ReferenceForward(const TestModel& model, const PassContext& context, const Values& x,
                        const Values& weights, const Values& tied) {
  Reference reference(model, context, weights, tied, Samples(model, x));
  return Run(model, x, &reference);
}

Values ReferenceStatistics(const TestModel& model, const PassContext& context, const Values& x,
                           const Values& weights) {
  const Values tied;
  Reference reference(model, context, weights, tied, Samples(model, x));
  Run(model, x, &reference);
  reference.statistics.resize(weights.size(), 0.0);
  return reference.statistics;
}

}  // namespace sangam::testing
