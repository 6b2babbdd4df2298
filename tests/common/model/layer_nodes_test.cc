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
    Describe(node.inner, lines);
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

}  // namespace
}  // namespace sangam
