#include "common/model/initializer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/model/model_layout.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

v1::SegmentLayout Segment() {
  v1::ModelSpec model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    input_shape: 7
    block {
      layer { linear { out_features: 11 } }
      layer { linear { out_features: 5 bias_initializer { constant { value: 0.25 } }
                       weight_initializer { uniform { bound: 2 } } } }
    }
  )",
                                                            &model));
  const auto layout = BuildModelLayout(model);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return layout->segment(0);
}

std::vector<float> Fill(const v1::SegmentLayout& segment, uint64_t seed, uint64_t first,
                        uint64_t count) {
  std::vector<float> out(count, NAN);
  FillInitialWeights(segment, seed, first, count, out.data());
  return out;
}

TEST(InitializerTest, AnyRangeHasTheSameBits) {
  const v1::SegmentLayout segment = Segment();
  const std::vector<float> whole = Fill(segment, 3, 0, segment.element_count());
  for (uint64_t first = 0; first < whole.size(); first += 3) {
    for (uint64_t count = 0; first + count <= whole.size(); count += 5) {
      const std::vector<float> part = Fill(segment, 3, first, count);
      EXPECT_EQ(part, std::vector<float>(whole.begin() + first, whole.begin() + first + count));
    }
  }
}

TEST(InitializerTest, KeepsWithinItsBounds) {
  const v1::SegmentLayout segment = Segment();
  const std::vector<float> w = Fill(segment, 3, 0, segment.element_count());
  const float first_bound = 1.0f / std::sqrt(7.0f);
  float largest = 0;
  for (size_t i = 0; i < 88; ++i) largest = std::max(largest, std::fabs(w[i]));
  EXPECT_LE(largest, first_bound * 1.000001f);
  EXPECT_GT(largest, first_bound * 0.9f);
  largest = 0;
  for (size_t i = 88; i < 88 + 55; ++i) largest = std::max(largest, std::fabs(w[i]));
  EXPECT_GT(largest, 1.8f);
  EXPECT_LE(largest, 2.0f);
  for (size_t i = 88 + 55; i < w.size(); ++i) EXPECT_EQ(w[i], 0.25f);
}

TEST(InitializerTest, SeedAndParameterGiveOtherNumbers) {
  const v1::SegmentLayout segment = Segment();
  EXPECT_NE(Fill(segment, 3, 0, 8), Fill(segment, 4, 0, 8));
  EXPECT_NE(Fill(segment, 3, 0, 8), Fill(segment, 3, 77, 8));
}

// The numbers are part of the promise: a change would silently change every job's result.
TEST(InitializerTest, NumbersStayWhatTheyWere) {
  EXPECT_EQ(Fill(Segment(), 1, 0, 4),
            (std::vector<float>{-0.181694284f, 0.316695452f, -0.319890529f, -0.301995605f}));
}

TEST(InitializerTest, EmbeddingsAreSmallAndNormsBeginAtOne) {
  v1::ModelSpec model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    input_shape: 10
    block {
      layer { embedding { vocabulary: 1000 width: 20 } }
      layer { rms_norm {} }
    }
  )",
                                                            &model));
  const auto layout = BuildModelLayout(model);
  ASSERT_TRUE(layout.ok()) << layout.status();
  const std::vector<float> weights = Fill(layout->segment(0), 3, 0, 20020);
  double squares = 0;
  for (uint64_t i = 0; i < 20000; ++i) squares += double{weights[i]} * double{weights[i]};
  // The deviation of 20000 uniform numbers is within 1 % by far.
  EXPECT_NEAR(std::sqrt(squares / 20000), 0.02, 0.0002);
  EXPECT_EQ(std::count(weights.begin() + 20000, weights.end(), 1.0f), 20);
}

}  // namespace
}  // namespace sangam
