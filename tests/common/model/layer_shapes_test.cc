#include "common/model/layer_shapes.h"

#include <optional>

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

}  // namespace
}  // namespace sangam
