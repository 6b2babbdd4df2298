#include "common/model/layer_parameters.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/model/expand_layers.h"
#include "common/model/layer_nodes.h"
#include "common/model/layer_shapes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/common/model/model_text.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using testing::ModelFrom;

v1::SegmentLayout Segment(const Shape& input, const std::string& layers) {
  const v1::ModelSpec model = ModelFrom("block { name: 'b' " + layers + " }");
  const v1::BlockSpec block = ExpandBlock(model, 0, input);
  v1::SegmentLayout segment;
  uint32_t next_parameter = 4;
  for (const LayerNode& node : LayerNodes({&model, 0}, block, input, 0)) {
    AddParameters(node, &next_parameter, &segment);
  }
  EXPECT_EQ(next_parameter, 4u + static_cast<uint32_t>(segment.parameter_size()));
  return segment;
}

// "index name shape at offset, fan_in[, decay]".
std::vector<std::string> Describe(const v1::SegmentLayout& segment) {
  std::vector<std::string> lines;
  for (const v1::ParameterLayout& parameter : segment.parameter()) {
    lines.push_back(absl::StrCat(parameter.parameter_index(), " ", parameter.name(), " [",
                                 absl::StrJoin(parameter.shape(), ","), "] at ", parameter.offset(),
                                 ", ", parameter.fan_in(), parameter.decay() ? ", decay" : ""));
  }
  return lines;
}

TEST(LayerParametersTest, FollowOneAnother) {
  const v1::SegmentLayout segment = Segment({3, 4}, R"(
    layer { position_embedding {} }
    layer { residual {
      layer { rms_norm {} }
      layer { causal_attention { heads: 2 } }
    } }
    layer { tanh {} }
    layer { causal_attention { heads: 1 no_bias: true } }
    layer { linear { out_features: 2 } }
  )");
  EXPECT_THAT(
      Describe(segment),
      ElementsAre("4 b.0.weight [3,4] at 0, 1", "5 b.1.0.gain [4] at 12, 1",
                  "6 b.1.1.qkv.weight [12,4] at 16, 4, decay", "7 b.1.1.qkv.bias [12] at 64, 4",
                  "8 b.1.1.out.weight [4,4] at 76, 4, decay", "9 b.1.1.out.bias [4] at 92, 4",
                  "10 b.3.qkv.weight [12,4] at 96, 4, decay",
                  "11 b.3.out.weight [4,4] at 144, 4, decay",
                  "12 b.4.weight [2,4] at 160, 4, decay", "13 b.4.bias [2] at 168, 4"));
  EXPECT_EQ(segment.element_count(), 170u);
  EXPECT_THAT(Describe(Segment({3}, "layer { embedding { vocabulary: 7 width: 2 } }")),
              ElementsAre("4 b.0.weight [7,2] at 0, 1, decay"));
}

TEST(LayerParametersTest, DefaultInitializersAndTheUsers) {
  const v1::SegmentLayout segment = Segment({3}, R"(
    layer { embedding { vocabulary: 7 width: 2 } }
    layer { position_embedding { initializer { constant { value: 3 } } } }
    layer { rms_norm {} }
    layer { causal_attention { heads: 1 weight_initializer { uniform { bound: 5 } } } }
    layer { linear { out_features: 2 } }
  )");
  // Standard deviation 0.02.
  EXPECT_FLOAT_EQ(segment.parameter(0).initializer().uniform().bound(), 0.02f * std::sqrt(3.0f));
  EXPECT_EQ(segment.parameter(1).initializer().constant().value(), 3);
  EXPECT_EQ(segment.parameter(2).initializer().constant().value(), 1);
  EXPECT_EQ(segment.parameter(3).initializer().uniform().bound(), 5);
  EXPECT_FLOAT_EQ(segment.parameter(4).initializer().fan_in().gain(), 1.0f / 3);
  EXPECT_EQ(segment.parameter(5).initializer().uniform().bound(), 5);
  EXPECT_FLOAT_EQ(segment.parameter(7).initializer().fan_in().gain(), 1.0f / 3);
  const v1::SegmentLayout learned = Segment({3, 2}, "layer { position_embedding {} }");
  EXPECT_FLOAT_EQ(learned.parameter(0).initializer().uniform().bound(), 0.02f * std::sqrt(3.0f));
}

TEST(LayerParametersTest, OfImagesAndNorms) {
  const v1::SegmentLayout segment = Segment({6, 5, 3}, R"(
    layer { conv2d { out_channels: 2 kernel_height: 3 kernel_width: 2 } }
    layer { batch_norm { momentum: 0.25 } }
    layer { residual {
      layer { layer_norm {} }
      shortcut { conv2d { out_channels: 2 kernel_height: 1 no_bias: true } }
    } }
    layer { concat { branch {} branch { layer { batch_norm {} } } } }
  )");
  EXPECT_THAT(
      Describe(segment),
      ElementsAre("4 b.0.weight [2,3,2,3] at 0, 18, decay", "5 b.0.bias [2] at 36, 18",
                  "6 b.1.gain [2] at 38, 1", "7 b.1.bias [2] at 40, 1",
                  "8 b.1.running_mean [2] at 42, 1", "9 b.1.running_variance [2] at 44, 1",
                  "10 b.2.0.gain [2] at 46, 1", "11 b.2.0.bias [2] at 48, 1",
                  "12 b.2.s.0.weight [2,1,1,2] at 50, 2, decay", "13 b.3.1.0.gain [2] at 54, 1",
                  "14 b.3.1.0.bias [2] at 56, 1", "15 b.3.1.0.running_mean [2] at 58, 1",
                  "16 b.3.1.0.running_variance [2] at 60, 1"));
  const float values[] = {1, 0, 0, 1};
  const float rates[] = {0, 0, 0.25f, 0.25f};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(segment.parameter(2 + i).initializer().constant().value(), values[i]) << i;
    EXPECT_EQ(segment.parameter(2 + i).average_rate(), rates[i]) << i;
  }
  EXPECT_EQ(segment.parameter(11).average_rate(), 0.1f);
}

}  // namespace
}  // namespace sangam
