#include "common/model/model_layout.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::ModelSpec Model(const std::string& text) {
  v1::ModelSpec model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  return model;
}

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
  return std::string(BuildModelLayout(Model(text)).status().message());
}

TEST(ModelLayoutTest, LaysParametersOutOneAfterTheOther) {
  const auto layout = BuildModelLayout(Model(kTwoBlocks));
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
  const auto layout = BuildModelLayout(Model(kTwoBlocks));
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ(layout->block_size(), 3);
  EXPECT_THAT(layout->block(0).input_shape(), ElementsAre(2, 3));
  EXPECT_THAT(layout->block(0).output_shape(), ElementsAre(5));
  EXPECT_EQ(layout->block(0).forward_flops(), 2u * 6 * 5 + 5);
  EXPECT_EQ(layout->block(0).activation_bytes(), 4u * (5 + 5));
  EXPECT_EQ(layout->block(1).name(), "block1");
  EXPECT_EQ(layout->block(1).segment(), -1);
  EXPECT_EQ(layout->block(2).segment(), 1);
}

TEST(ModelLayoutTest, NamesEveryLayerThatDoesNotFit) {
  const std::string faults = FaultOf(R"(
    input_shape: [2, 3]
    block { layer { linear { out_features: 5 } } layer { dropout { rate: 1 } } }
    block { layer { linear {} } layer {} }
  )");
  EXPECT_THAT(faults, HasSubstr("model.block[0].layer[0].linear: found an input of shape [2,3]"));
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

TEST(ModelLayoutTest, LayerShapesFollowTheLayers) {
  const v1::ModelSpec model = Model(kTwoBlocks);
  const auto shapes = LayerOutputShapes(model.block(0), {2, 3});
  ASSERT_TRUE(shapes.ok());
  EXPECT_THAT(*shapes, ElementsAre(ElementsAre(6), ElementsAre(5), ElementsAre(5)));
  EXPECT_FALSE(LayerOutputShapes(model.block(2), {2, 3}).ok());
}

TEST(SchemaHashTest, ChangesWithLayoutCutAndOptimizerOnly) {
  v1::JobSpec spec;
  spec.mutable_batch()->set_size(8);
  spec.mutable_optimizer()->set_learning_rate(0.1f);
  auto layout = BuildModelLayout(Model(kTwoBlocks));
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
