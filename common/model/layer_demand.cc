#include "common/model/layer_demand.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/model/layer_nodes.h"
#include "common/model/layer_shapes.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

int64_t Size(const Shape& shape) { return static_cast<int64_t>(Elements(shape)); }

}  // namespace

LayerDemand LinearDemand(int64_t positions, int64_t in, int64_t out, bool then_relu) {
  LayerDemand demand;
  demand.output = positions * out;
  demand.delta = then_relu ? positions * out : 0;
  demand.input_gradient = positions * in;
  return demand;
}

LayerDemand ActivationDemand(int64_t size) {
  LayerDemand demand;
  demand.output = size;
  demand.input_gradient = size;
  return demand;
}

LayerDemand DropoutDemand(float rate, int64_t size) {
  return rate == 0 ? LayerDemand() : ActivationDemand(size);
}

LayerDemand EmbeddingDemand(int64_t positions, int64_t width) {
  LayerDemand demand;
  demand.output = positions * width;
  return demand;
}

LayerDemand PositionEmbeddingDemand(int64_t size) {
  LayerDemand demand;
  demand.output = size;
  return demand;
}

LayerDemand RmsNormDemand(int64_t positions, int64_t width) {
  LayerDemand demand;
  demand.output = positions * width;
  demand.kept = positions;  // inverse_rms
  demand.input_gradient = positions * width;
  return demand;
}

LayerDemand CausalAttentionDemand(int64_t positions, int64_t width, int64_t heads) {
  LayerDemand between;
  between.output = positions * width;
  between.kept = positions * heads;  // log_sum
  between.input_gradient = positions * 3 * width;
  LayerDemand projection = LinearDemand(positions, width, width, false);
  LayerDemand demand;
  demand.output = projection.output;
  projection.output = 0;
  demand.inner = {LinearDemand(positions, width, 3 * width, false), std::move(between),
                  std::move(projection)};
  return demand;
}

LayerDemand LayerNormDemand(int64_t positions, int64_t width) {
  LayerDemand demand;
  demand.output = positions * width;
  demand.kept = 2 * positions;  // mean, inverse_deviation
  demand.input_gradient = positions * width;
  return demand;
}

LayerDemand BatchNormDemand(int64_t positions, int64_t width) {
  LayerDemand demand;
  demand.output = positions * width;
  demand.kept = 2 * width;   // mean, variance
  demand.delta = 2 * width;  // sums
  demand.input_gradient = positions * width;
  return demand;
}

LayerDemand Conv2dDemand(int64_t in, int64_t out, bool then_relu) {
  LayerDemand demand;
  demand.output = out;
  demand.delta = then_relu ? out : 0;
  demand.input_gradient = in;
  return demand;
}

LayerDemand PoolDemand(int64_t in, int64_t out) {
  LayerDemand demand;
  demand.output = out;
  demand.input_gradient = in;
  return demand;
}

LayerDemand ChainDemand(std::vector<LayerDemand> layers) {
  LayerDemand demand;
  demand.inner = std::move(layers);
  return demand;
}

LayerDemand ResidualDemand(int64_t in, int64_t out, std::vector<LayerDemand> chains) {
  LayerDemand demand;
  demand.output = out;
  demand.input_gradient = in;
  demand.inner = std::move(chains);
  return demand;
}

LayerDemand ConcatDemand(int64_t in, int64_t out, std::vector<LayerDemand> chains) {
  LayerDemand demand;
  demand.output = out;
  demand.delta = out;  // the branches' parts of the output's gradient
  demand.input_gradient = in;
  demand.inner = std::move(chains);
  return demand;
}

LayerDemand TiedHeadDemand(int64_t positions, int64_t width, int64_t vocabulary) {
  return LinearDemand(positions, width, vocabulary, false);
}

namespace {

std::vector<LayerDemand> DemandsOfChains(const LayerNode& node) {
  std::vector<LayerDemand> demands;
  for (const std::vector<LayerNode>& chain : node.chains) {
    std::vector<LayerDemand> layers;
    for (const LayerNode& layer : chain) layers.push_back(DemandOf(layer));
    demands.push_back(ChainDemand(std::move(layers)));
  }
  return demands;
}

}  // namespace

LayerDemand DemandOf(const LayerNode& node) {
  const int64_t in = Size(node.input);
  const int64_t out = Size(node.output);
  const auto width = static_cast<int64_t>(node.input.back());
  const int64_t positions = in / width;
  switch (node.spec->kind_case()) {
    case v1::LayerSpec::kLinear:
      return LinearDemand(positions, width, out / positions, node.then_relu);
    case v1::LayerSpec::kRelu:
    case v1::LayerSpec::kGelu:
    case v1::LayerSpec::kTanh:
    case v1::LayerSpec::kSigmoid:
      return ActivationDemand(out);
    case v1::LayerSpec::kDropout:
      return DropoutDemand(node.spec->dropout().rate(), out);
    case v1::LayerSpec::kEmbedding:
      return EmbeddingDemand(in, out / in);
    case v1::LayerSpec::kPositionEmbedding:
      return PositionEmbeddingDemand(out);
    case v1::LayerSpec::kRmsNorm:
      return RmsNormDemand(positions, width);
    case v1::LayerSpec::kCausalAttention:
      return CausalAttentionDemand(positions, width, node.spec->causal_attention().heads());
    case v1::LayerSpec::kLayerNorm:
      return LayerNormDemand(positions, width);
    case v1::LayerSpec::kBatchNorm:
      return BatchNormDemand(positions, width);
    case v1::LayerSpec::kConv2D:
      return Conv2dDemand(in, out, node.then_relu);
    case v1::LayerSpec::kMaxPool2D:
    case v1::LayerSpec::kAveragePool2D:
      return PoolDemand(in, out);
    case v1::LayerSpec::kResidual:
      return ResidualDemand(in, out, DemandsOfChains(node));
    case v1::LayerSpec::kConcat:
      return ConcatDemand(in, out, DemandsOfChains(node));
    case v1::LayerSpec::kTiedHead:
      return TiedHeadDemand(positions, width, out / positions);
    case v1::LayerSpec::kFlatten:
    case v1::LayerSpec::kTransformer:
    case v1::LayerSpec::KIND_NOT_SET:
      break;
  }
  return {};
}

int64_t StateFloats(const LayerDemand& demand) {
  int64_t floats = demand.output + demand.kept;
  for (const LayerDemand& inner : demand.inner) floats += StateFloats(inner);
  return floats;
}

int64_t ScratchFloats(const LayerDemand& demand) {
  int64_t floats = demand.delta + demand.input_gradient;
  for (const LayerDemand& inner : demand.inner) floats += ScratchFloats(inner);
  return floats;
}

int OutputLayer(const std::vector<LayerDemand>& layers) {
  int last = static_cast<int>(layers.size()) - 1;
  while (last >= 0 && layers[static_cast<size_t>(last)].output == 0) --last;
  return last;
}

BlockDemand DemandOf(const std::vector<LayerDemand>& layers, bool recompute) {
  BlockDemand demand;
  for (const LayerDemand& layer : layers) {
    demand.state += StateFloats(layer);
    demand.scratch += ScratchFloats(layer);
  }
  if (recompute) {
    const int last = OutputLayer(layers);
    const int64_t output = last < 0 ? 0 : layers[static_cast<size_t>(last)].output;
    demand.scratch += demand.state - output;
    demand.state = output;
  }
  return demand;
}

uint64_t ForwardFlops(const LayerNode& node) {
  const uint64_t in = Elements(node.input);
  const uint64_t out = Elements(node.output);
  const uint64_t width = node.input.back();
  switch (node.spec->kind_case()) {
    case v1::LayerSpec::kLinear:
      return 2 * width * out + (node.then_relu ? out : 0);
    case v1::LayerSpec::kTiedHead:
      return 2 * width * out;
    case v1::LayerSpec::kCausalAttention:
      // Two projections, to three times the width and to the width; and, of each position, scores
      // with and values of half of the positions on average.
      return 2 * in * 4 * width + 2 * in * (in / width);
    case v1::LayerSpec::kRmsNorm:
      return 4 * out;
    case v1::LayerSpec::kBatchNorm:
    case v1::LayerSpec::kLayerNorm:
      return 8 * out;  // mean, variance, and what is done with them
    case v1::LayerSpec::kConv2D: {
      const WindowSpec window = WindowOf(*node.spec, node.input);
      return 2 * window.kernel_height * window.kernel_width * width * out +
             (node.then_relu ? out : 0);
    }
    case v1::LayerSpec::kMaxPool2D:
    case v1::LayerSpec::kAveragePool2D: {
      const WindowSpec window = WindowOf(*node.spec, node.input);
      return window.kernel_height * window.kernel_width * out;
    }
    case v1::LayerSpec::kResidual:
    case v1::LayerSpec::kConcat: {
      uint64_t flops = out;
      for (const std::vector<LayerNode>& chain : node.chains) {
        for (const LayerNode& layer : chain) flops += ForwardFlops(layer);
      }
      return flops;
    }
    case v1::LayerSpec::kFlatten:
      return 0;
    default:
      return out;
  }
}

}  // namespace sangam
