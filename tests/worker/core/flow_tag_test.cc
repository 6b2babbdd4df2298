#include "worker/core/flow_tag.h"

#include <set>

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(FlowTagTest, TextsNameWhatTravelsWhere) {
  FlowTag tag;
  tag.step = 7;
  tag.micro_batch = 3;
  tag.boundary = 1;
  EXPECT_EQ(ToString(tag), "forward boundary 1, micro-batch 3 of step 7");
  tag.direction = FlowDirection::kBackward;
  EXPECT_EQ(ToString(tag), "backward boundary 1, micro-batch 3 of step 7");
  tag.evaluation = true;
  EXPECT_NE(ToString(tag), "backward boundary 1, micro-batch 3 of step 7");
  EXPECT_EQ(ToString(FlowShape{32, 256}), "[32, 256]");
}

TEST(FlowTagTest, EveryFieldTellsTagsApart) {
  std::set<FlowTag> tags;
  for (const uint64_t step : {0, 1}) {
    for (const bool evaluation : {false, true}) {
      for (const uint32_t micro_batch : {0u, 1u}) {
        for (const uint32_t boundary : {0u, 1u}) {
          for (const FlowDirection direction :
               {FlowDirection::kForward, FlowDirection::kBackward}) {
            const FlowTag tag{step, evaluation, micro_batch, boundary, direction};
            EXPECT_TRUE(tags.insert(tag).second);
            EXPECT_FALSE(tags.insert(tag).second);
            EXPECT_TRUE(tag == tag);
          }
        }
      }
    }
  }
  EXPECT_EQ(tags.size(), 32u);
  EXPECT_TRUE((FlowTag{1}) != (FlowTag{2}));
}

}  // namespace
}  // namespace sangam
