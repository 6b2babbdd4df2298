#include "common/model/layer_shapes.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/common/model/model_text.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using testing::ModelFrom;

TEST(LayerShapesTest, NamesAndElements) {
  EXPECT_EQ(ShapeText({2, 3}), "[2,3]");
  EXPECT_EQ(ShapeText({}), "[]");
  EXPECT_EQ(Elements({2, 3, 4}), 24u);
  EXPECT_EQ(Elements({}), 1u);
}

TEST(LayerShapesTest, FindsBlocksByNameAmongTheFirst) {
  const v1::ModelSpec model = ModelFrom("block { name: 'a' } block {} block { name: 'c' }");
  EXPECT_EQ(BlockName(model, 1), "block1");
  EXPECT_EQ(FindBlock(model, 3, "block1"), 1);
  EXPECT_EQ(FindBlock(model, 3, "c"), 2);
  EXPECT_EQ(FindBlock(model, 2, "c"), std::nullopt);
  EXPECT_EQ(FindBlock(model, -1, "a"), std::nullopt);
}

TEST(LayerShapesTest, ShapesFollowTheLayers) {
  const v1::ModelSpec model = ModelFrom(testing::kSmallGpt);
  EXPECT_EQ(FindEmbedding(model.block(0)), 0);
  EXPECT_EQ(FindEmbedding(model.block(1)), std::nullopt);
  const auto after = [&model](int block, int layer, const Shape& input) {
    return OutputShape({&model, block}, model.block(block).layer(layer), input);
  };
  EXPECT_THAT(after(0, 0, {8}), ElementsAre(8, 12));
  EXPECT_THAT(after(0, 1, {8, 12}), ElementsAre(8, 12));
  EXPECT_THAT(after(1, 0, {8, 12}), ElementsAre(8, 12));
  EXPECT_THAT(after(3, 1, {8, 12}), ElementsAre(8, 50));

  const v1::ModelSpec plain = ModelFrom(
      "block { layer { linear { out_features: 5 } } layer { flatten {} } layer { relu {} } }");
  const auto plainly = [&plain](int layer, const Shape& input) {
    return OutputShape({&plain, 0}, plain.block(0).layer(layer), input);
  };
  EXPECT_THAT(plainly(0, {4}), ElementsAre(5));
  EXPECT_THAT(plainly(0, {3, 4}), ElementsAre(3, 5));
  EXPECT_THAT(plainly(1, {2, 3, 4}), ElementsAre(24));
  EXPECT_THAT(plainly(2, {2, 3}), ElementsAre(2, 3));
}

TEST(LayerShapesTest, WindowsOverImages) {
  const struct {
    const char* layer;
    Shape output;
  } cases[] = {
      {"conv2d { out_channels: 7 kernel_height: 3 }", {3, 6, 7}},
      {"conv2d { out_channels: 7 kernel_height: 3 kernel_width: 2 padding: 1 }", {5, 9, 7}},
      {"conv2d { out_channels: 7 kernel_height: 3 stride: 2 padding: 1 }", {3, 4, 7}},
      {"conv2d { out_channels: 1 kernel_height: 5 kernel_width: 8 }", {1, 1, 1}},
      {"max_pool2d { kernel: 2 }", {2, 4, 4}},
      {"max_pool2d { kernel: 3 stride: 2 padding: 1 }", {3, 4, 4}},
      {"average_pool2d { kernel: 2 stride: 1 }", {4, 7, 4}},
      {"average_pool2d {}", {1, 1, 4}},
      {"concat { branch {} branch { layer { conv2d { out_channels: 2 kernel_height: 1 } } } }",
       {5, 8, 6}},
      {"residual { layer { max_pool2d { kernel: 2 } } shortcut { average_pool2d { kernel: 2 } } }",
       {2, 4, 4}},
      {"batch_norm {}", {5, 8, 4}},
      {"sigmoid {}", {5, 8, 4}},
  };
  for (const auto& test : cases) {
    const v1::ModelSpec model = ModelFrom(absl::StrCat("block { layer { ", test.layer, " } }"));
    EXPECT_EQ(OutputShape({&model, 0}, model.block(0).layer(0), {5, 8, 4}), test.output)
        << test.layer;
  }
}

}  // namespace
}  // namespace sangam
