#ifndef SANGAM_COMMON_MODEL_LAYER_DEMAND_H_
#define SANGAM_COMMON_MODEL_LAYER_DEMAND_H_

#include <cstdint>
#include <vector>

#include "common/model/layer_nodes.h"

namespace sangam {

// Floats for each sample that a layer wants for its own use; 0: none. The numbers by which the
// planner counts memory are the ones by which workers allocate it.
struct LayerDemand {
  // Of every micro-batch in flight.
  int64_t output = 0;
  int64_t kept = 0;  // what backward needs besides input and output
  // While a pass goes back.
  int64_t delta = 0;
  int64_t input_gradient = 0;
  // Of the layers within this one, or of the chains of layers.
  std::vector<LayerDemand> inner;
};

LayerDemand LinearDemand(int64_t positions, int64_t in, int64_t out, bool then_relu);
LayerDemand ActivationDemand(int64_t size);
LayerDemand DropoutDemand(float rate, int64_t size);
LayerDemand EmbeddingDemand(int64_t positions, int64_t width);
LayerDemand PositionEmbeddingDemand(int64_t size);
LayerDemand RmsNormDemand(int64_t positions, int64_t width);
// inner: projection to queries, keys and values; what is between; projection of the heads, whose
// output is the layer's.
LayerDemand CausalAttentionDemand(int64_t positions, int64_t width, int64_t heads);
LayerDemand LayerNormDemand(int64_t positions, int64_t width);
// Its statistics are of a whole micro-batch, which may have a single sample: counted for each.
LayerDemand BatchNormDemand(int64_t positions, int64_t width);
// in, out: elements of an image.
LayerDemand Conv2dDemand(int64_t in, int64_t out, bool then_relu);
LayerDemand PoolDemand(int64_t in, int64_t out);
// Layers within a layer that are computed one after the other; nothing of its own.
LayerDemand ChainDemand(std::vector<LayerDemand> layers);
// chains: of the layers, and of the shortcut's.
LayerDemand ResidualDemand(int64_t in, int64_t out, std::vector<LayerDemand> chains);
// chains: of the branches.
LayerDemand ConcatDemand(int64_t in, int64_t out, std::vector<LayerDemand> chains);
LayerDemand TiedHeadDemand(int64_t positions, int64_t width, int64_t vocabulary);

LayerDemand DemandOf(const LayerNode& node);

// Sums over a layer and those within it, in floats for each sample.
int64_t StateFloats(const LayerDemand& demand);
int64_t ScratchFloats(const LayerDemand& demand);

// The layer whose output is the block's in training: the last one that has an output of its own;
// -1 when nothing in the block moves.
int OutputLayer(const std::vector<LayerDemand>& layers);

// What one block wants, in floats for each sample.
struct BlockDemand {
  int64_t state = 0;    // of every micro-batch in flight
  int64_t scratch = 0;  // of the pass under way, when backward is not split
};
BlockDemand DemandOf(const std::vector<LayerDemand>& layers, bool recompute);

// Floating-point operations of one sample's forward pass.
uint64_t ForwardFlops(const LayerNode& node);

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_LAYER_DEMAND_H_
