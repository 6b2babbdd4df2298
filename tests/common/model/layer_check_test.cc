#include "common/model/layer_check.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/model/field_fault.h"
#include "common/model/layer_shapes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/common/model/model_text.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ModelFrom;

// Faults of the model's last block, one a line.
std::string Faults(const Shape& input, const std::string& blocks) {
  const v1::ModelSpec model = ModelFrom(blocks);
  std::vector<FieldFault> faults;
  CheckLayers({&model, model.block_size() - 1}, input, "b", &faults);
  return std::string(ToStatus(faults).message());
}

TEST(LayerCheckTest, NamesFieldFoundAndExpected) {
  const struct {
    Shape input;
    const char* layer;
    const char* fault;
  } cases[] = {
      {{2, 3, 4},
       "linear { out_features: 1 }",
       "b.layer[0].linear: found an input of shape [2,3,4], expected [in_features] or [positions, "
       "in_features]"},
      {{2, 3}, "linear {}", "b.layer[0].linear.out_features: found 0, expected 1 to"},
      {{2, 3},
       "position_embedding { initializer { fan_in { gain: 0 } } }",
       "b.layer[0].position_embedding.initializer.fan_in.gain: found 0"},
      {{3},
       "position_embedding {}",
       "b.layer[0].position_embedding: found an input of shape [3], expected [positions, width]"},
      {{3}, "rms_norm { epsilon: 0 }", "b.layer[0].rms_norm.epsilon: found 0, expected a finite"},
      {{3}, "rms_norm { epsilon: inf }", "b.layer[0].rms_norm.epsilon: found inf"},
      {{3},
       "causal_attention { heads: 1 }",
       "b.layer[0].causal_attention: found an input of shape [3], expected [positions, width]"},
      {{3, 4},
       "causal_attention {}",
       "b.layer[0].causal_attention.heads: found 0, expected a number that divides the width of 4"},
      {{3, 4}, "causal_attention { heads: 3 }", "b.layer[0].causal_attention.heads: found 3"},
      {{3, 6},
       "causal_attention { heads: 2 rotary: true }",
       "b.layer[0].causal_attention.rotary: found heads of width 3, expected an even width"},
      {{3, 4},
       "causal_attention { heads: 2 rotary_base: 1 }",
       "b.layer[0].causal_attention.rotary_base: found 1, expected a finite number > 1"},
      {{3, 4}, "transformer { heads: 3 }", "b.layer[0].transformer.heads: found 3"},
      {{3, 4}, "transformer { heads: 2 dropout: 1 }", "b.layer[0].transformer.dropout: found 1"},
      {{12}, "transformer { heads: 2 }", "b.layer[0].transformer: found an input of shape [12]"},
      {{3},
       "layer_norm { epsilon: 0 }",
       "b.layer[0].layer_norm.epsilon: found 0, expected a finite"},
      {{3}, "batch_norm { epsilon: -1 }", "b.layer[0].batch_norm.epsilon: found -1"},
      {{3},
       "batch_norm { momentum: 0 }",
       "b.layer[0].batch_norm.momentum: found 0, expected above 0 and at most 1"},
      {{3}, "batch_norm { momentum: nan }", "b.layer[0].batch_norm.momentum: found nan"},
      {{28, 28},
       "conv2d { out_channels: 1 kernel_height: 3 }",
       "b.layer[0].conv2d: found an input of shape [28,28], expected [height, width, channels]"},
      {{5, 6, 1}, "conv2d { kernel_height: 3 }", "b.layer[0].conv2d.out_channels: found 0"},
      {{5, 6, 1},
       "conv2d { out_channels: 1 }",
       "b.layer[0].conv2d.kernel_height: found 0, expected 1 to 5, the size of the image with"},
      {{5, 6, 1},
       "conv2d { out_channels: 1 kernel_height: 8 padding: 1 }",
       "b.layer[0].conv2d.kernel_height: found 8, expected 1 to 7"},
      {{8, 6, 1},
       "conv2d { out_channels: 1 kernel_height: 8 }",
       "b.layer[0].conv2d.kernel_width: found 8, expected 1 to 6"},
      {{5, 6, 1},
       "conv2d { out_channels: 1 kernel_height: 3 kernel_width: 2 padding: 2 }",
       "b.layer[0].conv2d.padding: found 2, expected less than the kernel's 2"},
      {{5, 6, 1},
       "conv2d { out_channels: 1 kernel_height: 3 weight_initializer { fan_in {} } }",
       "b.layer[0].conv2d.weight_initializer.fan_in.gain: found 0"},
      {{5, 6, 1},
       "conv2d { out_channels: 1 kernel_height: 1 no_bias: true bias_initializer {} }",
       "b.layer[0].conv2d.bias_initializer: found an initializer together with no_bias"},
      {{1048576, 256, 1},
       "conv2d { out_channels: 1048576 kernel_height: 200 }",
       "b.layer[0].conv2d: found an input of shape [1048576,256,1] and windows of 200 x 200"},
      {{5, 6, 1},
       "conv2d { out_channels: 1 kernel_height: 4294967295 padding: 4294967294 }",
       "b.layer[0].conv2d.kernel_height: found 4294967295, expected 1 to 1048576"},
      {{5, 6, 1},
       "conv2d { out_channels: 1048577 kernel_height: 1 }",
       "b.layer[0].conv2d.out_channels: found 1048577, expected 1 to 1048576"},
      {{5, 6, 1},
       "conv2d { out_channels: 1 kernel_height: 1 stride: 4294967295 }",
       "b.layer[0].conv2d.stride: found 4294967295, expected at most 1048576"},
      {{5, 6, 1048577},
       "average_pool2d {}",
       "b.layer[0].average_pool2d: found an input of shape [5,6,1048577], expected"},
      {{28}, "max_pool2d { kernel: 2 }", "b.layer[0].max_pool2d: found an input of shape [28]"},
      {{5, 6, 1}, "max_pool2d {}", "b.layer[0].max_pool2d.kernel: found 0, expected 1 to 5"},
      {{5, 6, 1}, "max_pool2d { kernel: 6 }", "b.layer[0].max_pool2d.kernel: found 6"},
      {{5, 6, 1},
       "max_pool2d { kernel: 3 padding: 2 }",
       "b.layer[0].max_pool2d.padding: found 2, expected at most half of the kernel's 3"},
      {{5, 6, 1}, "average_pool2d { kernel: 7 }", "b.layer[0].average_pool2d.kernel: found 7"},
      {{5, 6, 1},
       "average_pool2d { stride: 2 }",
       "b.layer[0].average_pool2d.stride: found 2, expected none without a kernel"},
      {{5, 6, 1},
       "average_pool2d { padding: 1 }",
       "b.layer[0].average_pool2d.padding: found 1, expected none without a kernel"},
      {{3}, "average_pool2d {}", "b.layer[0].average_pool2d: found an input of shape [3]"},
      {{3}, "concat { branch {} }", "b.layer[0].concat.branch: found 1 branches, expected 2 to"},
      {{3, 4},
       "concat { branch {} branch { layer { flatten {} } } }",
       "b.layer[0].concat.branch[1]: found an output of shape [12], expected that of branch[0], "
       "[3,4], but for the last dimension"},
      {{4, 4, 1},
       "concat { branch {} branch { layer { max_pool2d { kernel: 2 } } } }",
       "b.layer[0].concat.branch[1]: found an output of shape [2,2,1], expected that of"},
      {{4},
       "concat { branch {} branch { layer { tanh {} } layer { linear {} } } }",
       "b.layer[0].concat.branch[1].layer[1].linear.out_features: found 0"},
      {{2147483648},
       "concat { branch {} branch {} }",
       "b.layer[0].concat: found outputs that are 4294967296 wide in all"},
      {{3},
       "residual { layer { tanh {} } shortcut { linear { out_features: 4 } } }",
       "b.layer[0].residual.shortcut: found an output of shape [4], expected that of the layers, "
       "[3]"},
      {{3},
       "residual { layer { tanh {} } shortcut { dropout { rate: 1 } } }",
       "b.layer[0].residual.shortcut[0].dropout.rate: found 1"},
      {{3},
       "concat { branch {} branch { layer { embedding { vocabulary: 4 width: 2 } } } }",
       "b.layer[0].concat.branch[1].layer[0].embedding: found layers in front"},
      {{3}, "residual {}", "b.layer[0].residual.layer: found 0 layers, expected at least 1"},
      {{3},
       "residual { layer { linear { out_features: 4 } } }",
       "b.layer[0].residual: found an output of shape [4] within, expected that of the input, [3]"},
      {{3},
       "residual { layer { tanh {} } layer { dropout { rate: 2 } } }",
       "b.layer[0].residual.layer[1].dropout.rate: found 2"},
      {{3},
       "embedding { vocabulary: 0 width: 1 }",
       "b.layer[0].embedding.vocabulary: found 0, expected 1 to 16777216"},
      {{3},
       "embedding { vocabulary: 16777217 width: 1 }",
       "b.layer[0].embedding.vocabulary: found 16777217"},
      {{3}, "embedding { vocabulary: 5 }", "b.layer[0].embedding.width: found 0"},
      {{3, 4},
       "embedding { vocabulary: 5 width: 2 }",
       "b.layer[0].embedding: found an input of shape [3,4], expected [positions]"},
      {{3},
       "tied_head { block: 'b' }",
       "b.layer[0].tied_head.block: found \"b\", expected the name of an earlier block"},
  };
  for (const auto& test : cases) {
    EXPECT_THAT(Faults(test.input, absl::StrCat("block { layer { ", test.layer, " } }")),
                HasSubstr(test.fault));
  }
}

TEST(LayerCheckTest, TokensComeFromTheModelsInput) {
  constexpr char kEmbedding[] = "layer { embedding { vocabulary: 5 width: 3 } }";
  EXPECT_THAT(Faults({2, 2}, absl::StrCat("block { layer { flatten {} } ", kEmbedding, " }")),
              IsEmpty());
  constexpr char kFault[] = "expected the model's input: tokens have no gradient";
  EXPECT_THAT(Faults({3}, absl::StrCat("block { layer { tanh {} } ", kEmbedding, " }")),
              HasSubstr(kFault));
  EXPECT_THAT(Faults({3}, absl::StrCat("block {} block { ", kEmbedding, " }")), HasSubstr(kFault));
  EXPECT_THAT(Faults({3}, absl::StrCat("block { layer { residual { ", kEmbedding, " } } }")),
              HasSubstr(kFault));
}

TEST(LayerCheckTest, TiedHeadNeedsATableOfItsWidth) {
  constexpr char kTable[] =
      "block { name: 'e' layer { embedding { vocabulary: 5 width: 4 } } } block { name: 'n' layer "
      "{ tanh {} } } ";
  const auto faults = [&](const Shape& input, const std::string& layers) {
    return Faults(input, absl::StrCat(kTable, "block { name: 'h' ", layers, " }"));
  };
  EXPECT_THAT(faults({3, 4}, "layer { tied_head { block: 'e' } }"), IsEmpty());
  EXPECT_THAT(faults({3, 5}, "layer { tied_head { block: 'e' } }"),
              HasSubstr("tied_head: found an input of shape [3,5], expected [positions, width] "
                        "with the embedding's width of 4"));
  EXPECT_THAT(faults({12}, "layer { tied_head { block: 'e' } }"), HasSubstr("shape [12]"));
  for (const char* other : {"n", "h", "x"}) {
    EXPECT_THAT(faults({3, 4}, absl::StrCat("layer { tied_head { block: '", other, "' } }")),
                HasSubstr("with an embedding layer"));
  }
  EXPECT_THAT(faults({3, 4},
                     "layer { tied_head { block: 'e' } } layer { linear { out_features: 4 } } "
                     "layer { tied_head { block: 'e' } }"),
              HasSubstr("layer[2].tied_head: found a second one in the block"));
}

TEST(LayerCheckTest, SizesStayWithin64Bits) {
  constexpr uint64_t kLarge = uint64_t{1} << 20;
  EXPECT_THAT(Faults({kLarge}, "block { layer { linear { out_features: 2000000 } } }"),
              HasSubstr("linear.out_features: found 2000000"));
  EXPECT_THAT(Faults({kLarge, kLarge}, "block { layer { linear { out_features: 1024 } } }"),
              HasSubstr("multiplications"));
  EXPECT_THAT(Faults({kLarge, 1024}, "block { layer { causal_attention { heads: 2 } } }"),
              HasSubstr("causal_attention: found"));
  EXPECT_THAT(Faults({uint64_t{1} << 21, uint64_t{1} << 19}, "block { layer { flatten {} } }"),
              HasSubstr("flatten: found an input of shape [2097152,524288]"));
  std::string deep = "tanh {}";
  for (int i = 0; i < 16; ++i) deep = absl::StrCat("residual { layer { ", deep, " } }");
  EXPECT_THAT(Faults({3}, absl::StrCat("block { layer { ", deep, " } }")), IsEmpty());
  deep = absl::StrCat("residual { layer { ", deep, " } }");
  EXPECT_THAT(Faults({3}, absl::StrCat("block { layer { ", deep, " } }")),
              HasSubstr("found layers within 16 others, expected at most 15"));
  std::string many;
  for (int i = 0; i < 128; ++i) many += "layer { transformer { heads: 1 } } ";
  EXPECT_THAT(Faults({2, 2}, "block { " + many + " }"), IsEmpty());
  EXPECT_THAT(Faults({2, 2}, "block { " + many + "layer { tanh {} } }"),
              HasSubstr("b.layer: found 1025 layers, expected 1 to 1024"));
}

TEST(LayerCheckTest, LayersBehindAFaultAreCheckedToo) {
  const v1::ModelSpec model = ModelFrom(
      "block { layer { position_embedding {} } layer { linear { out_features: 2 } } layer {} }");
  std::vector<FieldFault> faults;
  EXPECT_THAT(CheckLayers({&model, 0}, {3}, "b", &faults),
              ElementsAre(ElementsAre(3), ElementsAre(2), ElementsAre(2)));
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_EQ(faults[1].field, "b.layer[2]");
}

}  // namespace
}  // namespace sangam
