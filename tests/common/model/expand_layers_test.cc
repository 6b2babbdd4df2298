#include "common/model/expand_layers.h"

#include <string>

#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/common/model/model_text.h"

namespace sangam {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::ModelFrom;

void ExpectEqual(const v1::ModelSpec& actual, const v1::ModelSpec& expected) {
  std::string difference;
  MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(actual, expected)) << difference;
}

TEST(ExpandLayersTest, TransformerStandsForTwoResiduals) {
  const v1::ModelSpec model = ModelFrom(R"(
    input_shape: [3, 4]
    block {
      layer { linear { out_features: 6 } }
      layer { transformer { heads: 2 dropout: 0.5 } }
      layer { rms_norm {} }
    }
    block {
      name: "last"
      layer { residual { layer { transformer { heads: 3 hidden: 7 rotary: true no_bias: true } } } }
      layer { causal_attention { heads: 1 } }
    }
  )");
  const v1::ModelSpec expected = ModelFrom(R"(
    input_shape: [3, 4]
    block {
      name: "block0"
      layer { linear { out_features: 6 } }
      layer { residual {
        layer { rms_norm { epsilon: 1e-5 } }
        layer { causal_attention { heads: 2 rotary_base: 10000 } }
        layer { dropout { rate: 0.5 } }
      } }
      layer { residual {
        layer { rms_norm { epsilon: 1e-5 } }
        layer { linear { out_features: 24 } }
        layer { gelu {} }
        layer { linear { out_features: 6 } }
        layer { dropout { rate: 0.5 } }
      } }
      layer { rms_norm { epsilon: 1e-5 } }
    }
    block {
      name: "last"
      layer { residual {
        layer { residual {
          layer { rms_norm { epsilon: 1e-5 } }
          layer { causal_attention { heads: 3 rotary: true rotary_base: 10000 no_bias: true } }
        } }
        layer { residual {
          layer { rms_norm { epsilon: 1e-5 } }
          layer { linear { out_features: 7 no_bias: true } }
          layer { gelu {} }
          layer { linear { out_features: 6 no_bias: true } }
        } }
      } }
      layer { causal_attention { heads: 1 rotary_base: 10000 } }
    }
  )");
  ExpectEqual(ExpandModel(model), expected);
  ExpectEqual(ExpandModel(expected), expected);
}

TEST(ExpandLayersTest, KeepsWhatTheUserSaid) {
  const v1::ModelSpec model = ModelFrom(R"(
    input_shape: [3, 4]
    block {
      name: "a"
      layer { rms_norm { epsilon: 0.5 } }
      layer { causal_attention { heads: 2 rotary: true rotary_base: 100
                                 weight_initializer { uniform { bound: 1 } } } }
      recompute: true
    }
    block { name: "b" layer { relu {} } }
    block { name: "c" layer { tanh {} } add_output_of: "a" }
  )");
  ExpectEqual(ExpandModel(model), model);
}

TEST(ExpandLayersTest, DefaultsAtAnyDepth) {
  const v1::ModelSpec model = ModelFrom(R"(
    input_shape: [8, 9, 4]
    block {
      name: "a"
      layer { conv2d { out_channels: 4 kernel_height: 3 padding: 1 } }
      layer { residual {
        layer { max_pool2d { kernel: 2 } }
        shortcut { average_pool2d { kernel: 2 } }
        shortcut { batch_norm {} }
      } }
      layer { average_pool2d {} }
      layer { concat { branch {} branch { layer { layer_norm {} } layer { batch_norm { momentum: 1 } } } } }
    }
    block { name: "b" layer { flatten {} } }
  )");
  const v1::ModelSpec expected = ModelFrom(R"(
    input_shape: [8, 9, 4]
    block {
      name: "a"
      layer { conv2d { out_channels: 4 kernel_height: 3 kernel_width: 3 stride: 1 padding: 1 } }
      layer { residual {
        layer { max_pool2d { kernel: 2 stride: 2 } }
        shortcut { average_pool2d { kernel: 2 stride: 2 } }
        shortcut { batch_norm { epsilon: 1e-5 momentum: 0.1 } }
      } }
      layer { average_pool2d {} }
      layer { concat {
        branch {}
        branch {
          layer { layer_norm { epsilon: 1e-5 } }
          layer { batch_norm { epsilon: 1e-5 momentum: 1 } }
        }
      } }
    }
    block { name: "b" layer { flatten {} } }
  )");
  ExpectEqual(ExpandModel(model), expected);
  ExpectEqual(ExpandModel(expected), expected);
  EXPECT_EQ(CountLayers(model.block(0)), 9u);
}

TEST(ExpandLayersTest, TransformersWithinShortcutsAndBranches) {
  const v1::ModelSpec model = ModelFrom(R"(
    input_shape: [3, 4]
    block {
      name: "a"
      layer { residual { layer { tanh {} } shortcut { transformer { heads: 2 } } } }
      layer { concat { branch { layer { transformer { heads: 2 } } } branch {} } }
    }
  )");
  const v1::BlockSpec block = ExpandModel(model).block(0);
  EXPECT_EQ(CountLayers(model.block(0)), 1u + 1 + 8 + 1 + 8);
  EXPECT_EQ(CountLayers(block), CountLayers(model.block(0)));
  EXPECT_EQ(block.layer(0).residual().shortcut_size(), 2);
  EXPECT_EQ(block.layer(1).concat().branch(0).layer_size(), 2);
}

TEST(ExpandLayersTest, CountsLayersAtAnyDepth) {
  const v1::ModelSpec model = ModelFrom(testing::kSmallGpt);
  EXPECT_EQ(CountLayers(model.block(0)), 2u);
  EXPECT_EQ(CountLayers(model.block(1)), 8u);
  EXPECT_EQ(CountLayers(model.block(2)), 10u);
  const v1::ModelSpec expanded = ExpandModel(model);
  EXPECT_EQ(expanded.block(2).layer_size(), 2);
  EXPECT_EQ(CountLayers(expanded.block(2)), 10u);
}

}  // namespace
}  // namespace sangam
