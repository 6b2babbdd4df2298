#include "common/model/layer_nodes.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/layer_shapes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/common/model/model_text.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using testing::ModelFrom;

// "number name input output", in the order of computation; '+' for a relu that goes with it.
void Describe(const std::vector<LayerNode>& nodes, std::vector<std::string>* lines) {
  for (const LayerNode& node : nodes) {
    lines->push_back(absl::StrCat(node.number, " ", node.name, " ", ShapeText(node.input), " ",
                                  ShapeText(node.output), node.then_relu ? "+" : ""));
    for (const std::vector<LayerNode>& chain : node.chains) Describe(chain, lines);
  }
}

TEST(LayerNodesTest, NumbersLayersInTheOrderInWhichTheyBegin) {
  const v1::ModelSpec model = ModelFrom(R"(
    block {}
    block {
      name: "b"
      layer { linear { out_features: 5 } }
      layer { relu {} }
      layer { residual {
        layer { linear { out_features: 7 } }
        layer { relu {} }
        layer { residual { layer { tanh {} } } }
        layer { linear { out_features: 5 } }
      } }
      layer { relu {} }
      layer { flatten {} }
    }
  )");
  std::vector<std::string> lines;
  Describe(LayerNodes({&model, 1}, model.block(1), {2, 3}, 10), &lines);
  EXPECT_THAT(lines,
              ElementsAre("10 b.0 [2,3] [2,5]+", "12 b.2 [2,5] [2,5]", "13 b.2.0 [2,5] [2,7]+",
                          "15 b.2.2 [2,7] [2,7]", "16 b.2.2.0 [2,7] [2,7]", "17 b.2.3 [2,7] [2,5]",
                          "18 b.3 [2,5] [2,5]", "19 b.4 [2,5] [10]"));
}

TEST(LayerNodesTest, NamesShortcutsAndBranches) {
  const v1::ModelSpec model = ModelFrom(R"(
    block {
      name: "b"
      layer { residual {
        layer { conv2d { out_channels: 2 kernel_height: 3 padding: 1 } }
        layer { relu {} }
        shortcut { conv2d { out_channels: 2 kernel_height: 1 } }
        shortcut { batch_norm {} }
      } }
      layer { concat {
        branch {}
        branch { layer { relu {} } layer { max_pool2d { kernel: 3 stride: 1 padding: 1 } } }
        branch { layer { concat { branch {} branch { layer { tanh {} } } } } }
      } }
      layer { average_pool2d {} }
    }
  )");
  std::vector<std::string> lines;
  Describe(LayerNodes({&model, 0}, model.block(0), {4, 5, 3}, 0), &lines);
  EXPECT_THAT(lines, ElementsAre("0 b.0 [4,5,3] [4,5,2]", "1 b.0.0 [4,5,3] [4,5,2]+",
                                 "3 b.0.s.0 [4,5,3] [4,5,2]", "4 b.0.s.1 [4,5,2] [4,5,2]",
                                 "5 b.1 [4,5,2] [4,5,8]", "6 b.1.1.0 [4,5,2] [4,5,2]",
                                 "7 b.1.1.1 [4,5,2] [4,5,2]", "8 b.1.2.0 [4,5,2] [4,5,4]",
                                 "9 b.1.2.0.1.0 [4,5,2] [4,5,2]", "10 b.2 [4,5,8] [1,1,8]"));
}

}  // namespace
}  // namespace sangam
