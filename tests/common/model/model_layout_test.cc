#include "common/model/model_layout.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/model/expand_layers.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/common/model/model_text.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModelFrom;

constexpr char kTwoBlocks[] = R"(
  input_shape: [2, 3]
  block {
    name: "hidden"
    layer { flatten {} }
    layer { linear { out_features: 5 } }
    layer { relu {} }
  }
  block { layer { dropout { rate: 0.5 } } }
  block { name: "out" layer { linear { out_features: 4 no_bias: true } } }
)";

std::string FaultOf(const std::string& text) {
  return std::string(BuildModelLayout(ModelFrom(text)).status().message());
}

TEST(ModelLayoutTest, LaysParametersOutOneAfterTheOther) {
  const auto layout = BuildModelLayout(ModelFrom(kTwoBlocks));
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->segment_size(), 2);
  EXPECT_EQ(layout->parameter_count(), 5u * 6 + 5 + 4 * 5);
  const v1::SegmentLayout& hidden = layout->segment(0);
  EXPECT_EQ(hidden.block(), 0u);
  EXPECT_EQ(hidden.element_count(), 35u);
  ASSERT_EQ(hidden.parameter_size(), 2);
  EXPECT_EQ(hidden.parameter(0).name(), "hidden.1.weight");
  EXPECT_THAT(hidden.parameter(0).shape(), ElementsAre(5, 6));
  EXPECT_TRUE(hidden.parameter(0).decay());
  EXPECT_EQ(hidden.parameter(1).name(), "hidden.1.bias");
  EXPECT_EQ(hidden.parameter(1).offset(), 30u);
  EXPECT_EQ(hidden.parameter(1).fan_in(), 6u);
  EXPECT_FALSE(hidden.parameter(1).decay());
  ASSERT_EQ(layout->segment(1).parameter_size(), 1);
  EXPECT_EQ(layout->segment(1).block(), 2u);
  EXPECT_EQ(layout->segment(1).parameter(0).parameter_index(), 2u);
}

TEST(ModelLayoutTest, DeclaresShapesAndCostsOfBlocks) {
  const auto layout = BuildModelLayout(ModelFrom(kTwoBlocks));
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->block_size(), 3);
  EXPECT_THAT(layout->block(0).input_shape(), ElementsAre(2, 3));
  EXPECT_THAT(layout->block(0).output_shape(), ElementsAre(5));
  EXPECT_EQ(layout->block(0).forward_flops(), 2u * 6 * 5 + 5);
  // The relu goes with the linear layer.
  EXPECT_EQ(layout->block(0).activation_bytes(), 4u * 5);
  EXPECT_EQ(layout->block(0).scratch_bytes(), 4u * (5 + 6));
  EXPECT_EQ(layout->block(1).name(), "block1");
  EXPECT_EQ(layout->block(1).segment(), -1);
  EXPECT_EQ(layout->block(2).segment(), 1);
}

TEST(ModelLayoutTest, NamesEveryLayerThatDoesNotFit) {
  const std::string faults = FaultOf(R"(
    input_shape: [2, 3, 4]
    block { layer { linear { out_features: 5 } } layer { dropout { rate: 1 } } }
    block { layer { linear {} } layer {} }
  )");
  EXPECT_THAT(faults, HasSubstr("model.block[0].layer[0].linear: found an input of shape [2,3,4]"));
  EXPECT_THAT(faults, HasSubstr("model.block[0].layer[1].dropout.rate: found 1"));
  EXPECT_THAT(faults, HasSubstr("model.block[1].layer[0].linear.out_features: found 0"));
  EXPECT_THAT(faults, HasSubstr("model.block[1].layer[1]: found an empty layer"));
}

TEST(ModelLayoutTest, RefusesWhatCannotBeAModel) {
  EXPECT_THAT(FaultOf(""), AllOf(HasSubstr("model.input_shape"), HasSubstr("model.block")));
  EXPECT_THAT(FaultOf("input_shape: 4 block {}"), HasSubstr("model.block[0].layer: found 0"));
  EXPECT_THAT(FaultOf("input_shape: 4 block { layer { relu {} } }"),
              HasSubstr("no layer with parameters"));
  EXPECT_THAT(FaultOf("input_shape: 0 block { layer { relu {} } }"),
              HasSubstr("model.input_shape: found [0]"));
  // The product would overflow 64 bits.
  EXPECT_THAT(FaultOf("input_shape: [2000000000, 2000000000, 2000000000] block { layer {} }"),
              HasSubstr("model.input_shape"));
  EXPECT_THAT(FaultOf("input_shape: 2000000000 block { layer { linear { out_features: "
                      "18446744073709551615 } } }"),
              HasSubstr("out_features: found 18446744073709551615"));
  EXPECT_THAT(FaultOf("input_shape: 4 block { name: 'a b' layer { linear { out_features: 1 } } }"),
              HasSubstr("model.block[0].name: found \"a b\""));
  EXPECT_THAT(FaultOf("input_shape: 4 block { name: 'a' layer { linear { out_features: 1 } } } "
                      "block { name: 'a' layer { linear { out_features: 1 } } }"),
              HasSubstr("model.block[1].name: found \"a\" twice"));
  EXPECT_THAT(FaultOf("input_shape: 4 block { layer { linear { out_features: 1 "
                      "weight_initializer { uniform { bound: nan } } } } }"),
              HasSubstr("weight_initializer.uniform.bound: found nan"));
}

TEST(ModelLayoutTest, LaysOutASmallGpt) {
  const auto layout = BuildModelLayout(ModelFrom(testing::kSmallGpt));
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->segment_size(), 4);
  EXPECT_THAT(layout->segment(0).use(), ElementsAre(0, 3));
  EXPECT_THAT(layout->segment(1).use(), ElementsAre(1));
  EXPECT_EQ(layout->segment(0).element_count(), 50u * 12 + 8 * 12);
  // Norm, attention; norm and two linear layers.
  const uint64_t of_transformer = 12 + 36 * 13 + 12 * 13 + 12 + 48 * 13 + 12 * 49;
  EXPECT_EQ(layout->segment(1).element_count(), of_transformer);
  EXPECT_EQ(layout->segment(2).element_count(), of_transformer);
  EXPECT_EQ(layout->segment(3).element_count(), 12u);
  EXPECT_EQ(layout->parameter_count(), 696 + 2 * of_transformer + 12);
  EXPECT_EQ(layout->segment(1).parameter(9).name(), "first.1.3.bias");
  EXPECT_EQ(layout->segment(3).parameter(0).name(), "head.0.gain");
  EXPECT_EQ(layout->segment(3).parameter(0).parameter_index(), 22u);
  EXPECT_EQ(layout->terms_per_sample(), 8u);
}

// Of 8 positions and width 12: 96 floats.
TEST(ModelLayoutTest, DeclaresCostsOfASmallGpt) {
  const auto layout = BuildModelLayout(ModelFrom(testing::kSmallGpt));
  ASSERT_TRUE(layout.ok()) << layout.status();
  const v1::BlockLayout& embed = layout->block(0);
  EXPECT_THAT(embed.output_shape(), ElementsAre(8, 12));
  EXPECT_EQ(embed.activation_bytes(), 4u * (96 + 96));
  EXPECT_EQ(embed.scratch_bytes(), 0u);
  EXPECT_EQ(embed.forward_flops(), 96u + 96);

  const v1::BlockLayout& first = layout->block(1);
  EXPECT_FALSE(first.has_tied_segment());
  EXPECT_FALSE(first.has_skip_from());
  // Norm and its scales; queries, keys and values, heads, log sums, projection; the sum.
  const uint64_t attention = 96 + 8 + 288 + 96 + 24 + 96 + 96;
  const uint64_t wide = 96 + 8 + 384 + 384 + 96 + 96;
  const uint64_t back = (96 + 96 + 288 + 96 + 96) + (96 + 96 + 384 + 384 + 96);
  EXPECT_EQ(first.activation_bytes(), 4 * (attention + wide));
  EXPECT_EQ(first.scratch_bytes(), 4 * back);
  EXPECT_EQ(first.forward_flops(), (4 * 96 + 2 * 96 * 48 + 2 * 96 * 8 + 96) +
                                       (4 * 96 + 2 * 96 * 48 + 384 + 2 * 384 * 12 + 96));

  // Recomputed, and with two dropout layers.
  const v1::BlockLayout& second = layout->block(2);
  EXPECT_EQ(second.activation_bytes(), 4u * 96);
  EXPECT_EQ(second.scratch_bytes(), 4 * (attention + wide + back + 4 * 96 - 96));

  const v1::BlockLayout& head = layout->block(3);
  EXPECT_THAT(head.output_shape(), ElementsAre(8, 50));
  EXPECT_EQ(head.segment(), 3);
  ASSERT_TRUE(head.has_tied_segment());
  EXPECT_EQ(head.tied_segment(), 0u);
  EXPECT_EQ(head.activation_bytes(), 4u * (96 + 8 + 400));
  EXPECT_EQ(head.scratch_bytes(), 4u * (96 + 96));
  EXPECT_EQ(head.forward_flops(), 4u * 96 + 2 * 12 * 400);
}

TEST(ModelLayoutTest, ExpandedModelHasTheSameLayout) {
  const v1::ModelSpec model = ModelFrom(testing::kSmallGpt);
  const auto layout = BuildModelLayout(model);
  const auto expanded = BuildModelLayout(ExpandModel(model));
  ASSERT_TRUE(layout.ok() && expanded.ok()) << expanded.status();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*layout, *expanded));
}

TEST(ModelLayoutTest, TiedHeadAloneHasNoSegmentOfItsOwn) {
  const auto layout = BuildModelLayout(ModelFrom(R"(
    input_shape: 4
    block { name: "e" layer { embedding { vocabulary: 5 width: 3 } } }
    block { layer { tanh {} } layer { tied_head { block: "e" } } }
  )"));
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->block(1).segment(), -1);
  EXPECT_EQ(layout->block(1).tied_segment(), 0u);
  EXPECT_THAT(layout->segment(0).use(), ElementsAre(0, 1));
}

TEST(ModelLayoutTest, SkipConnectionsComeFromEarlierBlocksOfTheSameShape) {
  const std::string before = R"(
    input_shape: 4
    block { name: "a" layer { linear { out_features: 3 } } }
    block { name: "b" layer { linear { out_features: 3 } } }
    block { name: "c" layer { linear { out_features: 2 } } }
  )";
  const auto layout = BuildModelLayout(
      ModelFrom(before + "block { layer { linear { out_features: 1 } } add_output_of: 'a' }"));
  EXPECT_EQ(layout.status().message(),
            "model.block[3].add_output_of: found \"a\" with an output of shape [3], expected that "
            "of the block's input, [2]");
  for (const char* from : {"c", "d", "x", "block3"}) {
    EXPECT_THAT(
        FaultOf(before + "block { name: 'd' layer { tanh {} } add_output_of: '" + from + "' }"),
        HasSubstr("expected the name of an earlier block, not the one just before"));
  }
  EXPECT_THAT(FaultOf("input_shape: 4 block { layer { tanh {} } add_output_of: 'block0' }"),
              HasSubstr("model.block[0].add_output_of: found \"block0\""));
  const auto good = BuildModelLayout(ModelFrom(R"(
    input_shape: 3
    block { layer { linear { out_features: 3 } } }
    block { layer { tanh {} } }
    block { layer { tanh {} } add_output_of: "block0" }
  )"));
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_FALSE(good->block(1).has_skip_from());
  EXPECT_EQ(good->block(2).skip_from(), 0u);
  EXPECT_EQ(good->terms_per_sample(), 1u);
}

TEST(ModelLayoutTest, TargetsThatAreNumbersAreATermEach) {
  const v1::ModelSpec model =
      ModelFrom("input_shape: [3, 4] block { layer { linear { out_features: 5 } } }");
  v1::LossSpec loss;
  loss.mutable_token_cross_entropy();
  EXPECT_EQ(BuildModelLayout(model, loss)->terms_per_sample(), 3u);
  loss.mutable_mean_squared_error();
  EXPECT_EQ(BuildModelLayout(model, loss)->terms_per_sample(), 15u);
  loss.mutable_binary_cross_entropy();
  EXPECT_EQ(BuildModelLayout(model, loss)->terms_per_sample(), 15u);
}

TEST(ModelLayoutTest, TiedHeadsAreFoundAtAnyDepth) {
  for (const char* around : {"residual { layer { dropout {} } shortcut { %s } }",
                             "concat { branch { layer { %s } } branch {} }"}) {
    SCOPED_TRACE(around);
    const std::string head = "tied_head { block: 'e' }";
    std::string layer = around;
    layer.replace(layer.find("%s"), 2, head);
    const auto layout = BuildModelLayout(ModelFrom(
        "input_shape: 3 block { name: 'e' layer { embedding { vocabulary: 4 width: 4 } } } "
        "block { layer { " +
        layer + " } }"));
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_TRUE(layout->block(1).has_tied_segment());
  }
}

TEST(ModelLayoutTest, LayersOfAllBlocksTogetherAreBounded) {
  v1::ModelSpec model;
  model.add_input_shape(4);
  for (int b = 0; b < 64; ++b) {
    v1::BlockSpec* block = model.add_block();
    for (int l = 0; l < 1024; ++l) block->add_layer()->mutable_relu();
  }
  model.mutable_block(0)->mutable_layer(0)->mutable_linear()->set_out_features(4);
  EXPECT_TRUE(BuildModelLayout(model).ok());
  // It stands for 10.
  model.add_block()->add_layer()->mutable_transformer()->set_dropout(0.1f);
  EXPECT_EQ(BuildModelLayout(model).status().message(),
            "model.block: found 65546 layers in all, expected at most 65536");
}

TEST(ModelLayoutTest, RefusesSumsThatAreTooLarge) {
  std::string blocks = "input_shape: [268435456, 1024] ";
  for (int i = 0; i < 200; ++i) {
    blocks +=
        "block { layer { linear { out_features: 1024 } } layer { linear { out_features: 1024 "
        "} } }";
  }
  EXPECT_THAT(FaultOf(blocks), HasSubstr("more floating-point operations for one sample"));
}

TEST(SchemaHashTest, ChangesWithLayoutCutAndOptimizerOnly) {
  v1::JobSpec spec;
  spec.mutable_batch()->set_size(8);
  spec.mutable_optimizer()->set_learning_rate(0.1f);
  auto layout = BuildModelLayout(ModelFrom(kTwoBlocks));
  ASSERT_TRUE(layout.ok());
  const uint64_t hash = SchemaHash(spec, *layout);
  v1::JobSpec other = spec;
  other.set_name("x");
  other.mutable_resources()->set_workers(5);
  EXPECT_EQ(SchemaHash(other, *layout), hash);
  other.mutable_batch()->set_shares(2);
  EXPECT_NE(SchemaHash(other, *layout), hash);
  other = spec;
  other.mutable_optimizer()->set_learning_rate(0.2f);
  EXPECT_NE(SchemaHash(other, *layout), hash);
  layout->mutable_segment(0)->mutable_parameter(0)->set_offset(1);
  EXPECT_NE(SchemaHash(spec, *layout), hash);
}

}  // namespace
}  // namespace sangam
