#include "worker/layers/layer_factory.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/model/model_layout.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "worker/layers/layer_chain.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

v1::ModelSpec Model() {
  v1::ModelSpec model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    input_shape: 4
    block { name: "e" layer { embedding { vocabulary: 5 width: 6 } } }
    block {
      layer { linear { out_features: 6 } }
      layer { relu {} }
      layer { transformer { heads: 2 } }
      layer { dropout { rate: 0.5 } }
      layer { residual { layer { tanh {} } } }
    }
    block { layer { dropout {} } }
    block { layer { tied_head { block: "e" } } }
  )",
                                                            &model));
  return model;
}

TEST(LayerFactoryTest, MakesOneLayerForEachThatIsComputed) {
  const v1::ModelSpec model = Model();
  const auto layout = BuildModelLayout(model);
  ASSERT_TRUE(layout.ok()) << layout.status();
  const auto chain = MakeLayers(model, *layout, 1);
  ASSERT_TRUE(chain.ok()) << chain.status();
  // Linear with its relu, the transformer's two residuals, dropout and a residual.
  ASSERT_EQ(chain->layers().size(), 5u);
  EXPECT_TRUE(chain->layers()[1]->has_parameters());
  EXPECT_TRUE(chain->layers()[3]->moves(true));
  EXPECT_FALSE(chain->layers()[3]->moves(false));
  EXPECT_FALSE(chain->layers()[4]->has_parameters());
  const auto none = MakeLayers(model, *layout, 2);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_parameters());
  EXPECT_FALSE(none->layers()[0]->moves(true));
  const auto head = MakeLayers(model, *layout, 3);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_TRUE(head->has_parameters());
}

TEST(LayerFactoryTest, NamesWhatDoesNotFitTheLayout) {
  const v1::ModelSpec model = Model();
  v1::ModelLayout layout = *BuildModelLayout(model);
  const auto message = [&](int block) {
    const absl::Status status = MakeLayers(model, layout, static_cast<uint32_t>(block)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message(4), HasSubstr("block 4"));
  layout.mutable_segment(0)->mutable_parameter(0)->set_name("e.1.weight");
  EXPECT_THAT(message(0), HasSubstr("block \"e\": the layout has no parameter e.0.weight"));
  EXPECT_THAT(message(3), HasSubstr("the layout has no parameter e.0.weight"));
  layout.mutable_block(3)->set_tied_segment(9);
  EXPECT_THAT(message(3), HasSubstr("no such segment"));
  layout.mutable_block(1)->clear_input_shape();
  EXPECT_THAT(message(1), HasSubstr("input_shape: found nothing"));
}

}  // namespace
}  // namespace sangam
