#include "common/model/layer_demand.h"

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "common/model/expand_layers.h"
#include "common/model/layer_nodes.h"
#include "common/model/layer_shapes.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/common/model/model_text.h"

namespace sangam {
namespace {

using testing::ModelFrom;

struct Costs {
  int64_t state, scratch;
  uint64_t flops;
  bool operator==(const Costs& other) const {
    return state == other.state && scratch == other.scratch && flops == other.flops;
  }
};
void PrintTo(const Costs& costs, std::ostream* out) {
  *out << costs.state << " " << costs.scratch << " " << costs.flops;
}

// Of the last of some layers, in a model that embeds 9 tokens in front.
Costs CostsOf(const Shape& input, const std::string& layers) {
  const v1::ModelSpec model =
      ModelFrom("block { name: 'e' layer { embedding { vocabulary: 9 width: 4 } } } block { " +
                layers + " }");
  const v1::BlockSpec block = ExpandBlock(model, 1, input);
  const LayerNode node = LayerNodes({&model, 1}, block, input, 0).back();
  const LayerDemand demand = DemandOf(node);
  return {StateFloats(demand), ScratchFloats(demand), ForwardFlops(node)};
}

TEST(LayerDemandTest, OfEachKind) {
  EXPECT_EQ(CostsOf({3}, "layer { linear { out_features: 5 } }"), (Costs{5, 3, 30}));
  EXPECT_EQ(CostsOf({2, 3}, "layer { linear { out_features: 5 } }"), (Costs{10, 6, 60}));
  // The relu goes with the linear layer: one output, and its delta.
  EXPECT_EQ(CostsOf({2, 3}, "layer { linear { out_features: 5 } } layer { relu {} }"),
            (Costs{10, 16, 70}));
  EXPECT_EQ(CostsOf({2, 3}, "layer { gelu {} }"), (Costs{6, 6, 6}));
  EXPECT_EQ(CostsOf({2, 3}, "layer { flatten {} }"), (Costs{0, 0, 0}));
  EXPECT_EQ(CostsOf({6}, "layer { dropout { rate: 0.5 } }"), (Costs{6, 6, 6}));
  EXPECT_EQ(CostsOf({6}, "layer { dropout {} }"), (Costs{0, 0, 6}));
  EXPECT_EQ(CostsOf({5}, "layer { embedding { vocabulary: 9 width: 4 } }"), (Costs{20, 0, 20}));
  EXPECT_EQ(CostsOf({5, 4}, "layer { position_embedding {} }"), (Costs{20, 0, 20}));
  EXPECT_EQ(CostsOf({5, 4}, "layer { rms_norm {} }"), (Costs{25, 20, 80}));
  EXPECT_EQ(CostsOf({4}, "layer { rms_norm {} }"), (Costs{5, 4, 16}));
  // 2 x 5 x 4 x 16 for the projections, 2 x 5 x 5 x 4 for scores and values.
  EXPECT_EQ(CostsOf({5, 4}, "layer { causal_attention { heads: 2 } }"),
            (Costs{60 + 20 + 10 + 20, 20 + 60 + 20, 640 + 200}));
  EXPECT_EQ(CostsOf({5, 4}, "layer { residual { layer { tanh {} } layer { gelu {} } } }"),
            (Costs{60, 60, 60}));
  EXPECT_EQ(CostsOf({6}, "layer { sigmoid {} }"), (Costs{6, 6, 6}));
  EXPECT_EQ(CostsOf({5, 4}, "layer { layer_norm {} }"), (Costs{20 + 10, 20, 160}));
  EXPECT_EQ(CostsOf({5, 3, 4}, "layer { batch_norm {} }"), (Costs{60 + 8, 60 + 8, 480}));
  // 3 x 2 places, each of 2 channels over 3 x 3 x 4 elements.
  EXPECT_EQ(CostsOf({5, 4, 4}, "layer { conv2d { out_channels: 2 kernel_height: 3 } }"),
            (Costs{12, 80, 2 * 36 * 12}));
  EXPECT_EQ(
      CostsOf({5, 4, 4}, "layer { conv2d { out_channels: 2 kernel_height: 3 } } layer { relu {} }"),
      (Costs{12, 80 + 12, 2 * 36 * 12 + 12}));
  EXPECT_EQ(CostsOf({6, 4, 2}, "layer { max_pool2d { kernel: 2 } }"), (Costs{12, 48, 48}));
  EXPECT_EQ(CostsOf({6, 4, 2}, "layer { average_pool2d {} }"), (Costs{2, 48, 48}));
  EXPECT_EQ(CostsOf({2, 2, 3},
                    "layer { residual { layer { average_pool2d {} } shortcut { max_pool2d { "
                    "kernel: 2 } } } }"),
            (Costs{9, 36, 3 + 12 + 12}));
  EXPECT_EQ(CostsOf({5, 4}, "layer { concat { branch {} branch { layer { tanh {} } } } }"),
            (Costs{40 + 20, 40 + 20 + 20, 40 + 20}));
  EXPECT_EQ(CostsOf({5, 4}, "layer { tied_head { block: 'e' } }"), (Costs{45, 20, 360}));
}

TEST(LayerDemandTest, RecomputationKeepsTheOutputAlone) {
  const LayerDemand linear = LinearDemand(1, 3, 5, false);
  const LayerDemand dropout = DropoutDemand(0.5f, 5);
  const LayerDemand flatten;
  const BlockDemand plain = DemandOf({linear, dropout, flatten}, false);
  EXPECT_EQ(plain.state, 5 + 5);
  EXPECT_EQ(plain.scratch, 3 + 5);
  EXPECT_EQ(OutputLayer({linear, dropout, flatten}), 1);
  const BlockDemand recomputed = DemandOf({linear, dropout, flatten}, true);
  EXPECT_EQ(recomputed.state, 5);
  EXPECT_EQ(recomputed.scratch, 5 + 3 + 5);
  EXPECT_EQ(OutputLayer({flatten}), -1);
  EXPECT_EQ(DemandOf({flatten}, true).state, 0);
}

}  // namespace
}  // namespace sangam
