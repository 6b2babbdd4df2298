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
