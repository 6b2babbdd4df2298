#include "server/core/block_times.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

v1::BlockTime Time(uint32_t block, double forward, double backward, uint64_t samples) {
  v1::BlockTime time;
  time.set_block(block);
  time.set_forward_seconds(forward);
  time.set_backward_seconds(backward);
  time.set_samples(samples);
  return time;
}

v1::BlockTimesReport Report(const std::vector<v1::BlockTime>& times) {
  v1::BlockTimesReport report;
  for (const v1::BlockTime& time : times) *report.add_block() = time;
  return report;
}

class BlockTimesTest : public ::testing::Test {
 protected:
  // "1:0.5/8": block 1 took 0.5 s forward over 8 samples.
  std::string Known(const std::string& backend = "cpu") const {
    std::string text;
    for (const v1::BlockTime& time : times_.Find(spec_.model(), layout(), backend)) {
      absl::StrAppend(&text, text.empty() ? "" : " ", time.block(), ":", time.forward_seconds(),
                      "/", time.samples());
    }
    return text;
  }
  v1::ModelLayout layout() const { return testing::LayoutOf(spec_); }

  v1::JobSpec spec_ = testing::SmallJob("job", 1, 1);
  BlockTimes times_{3};
};

TEST_F(BlockTimesTest, KnowsWhatWasMeasured) {
  EXPECT_EQ(Known(), "");
  times_.Add(Report({Time(1, 0.5, 1, 8)}), spec_.model(), layout(), "cpu");
  EXPECT_EQ(Known(), "1:0.5/8");
  times_.Add(Report({Time(0, 0.25, 1, 4)}), spec_.model(), layout(), "cpu");
  EXPECT_EQ(Known(), "0:0.25/4 1:0.5/8");
}

TEST_F(BlockTimesTest, TheNewestMeasurementStands) {
  times_.Add(Report({Time(1, 0.5, 1, 8)}), spec_.model(), layout(), "cpu");
  times_.Add(Report({Time(1, 2, 1, 16), Time(0, 0, 0, 0)}), spec_.model(), layout(), "cpu");
  EXPECT_EQ(Known(), "1:2/16");
  EXPECT_EQ(times_.size(), 1u);
}

TEST_F(BlockTimesTest, ABlockIsWhatItComputesNotItsName) {
  times_.Add(Report({Time(1, 0.5, 1, 8)}), spec_.model(), layout(), "cpu");
  spec_.mutable_model()->mutable_block(1)->set_name("other");
  EXPECT_EQ(Known(), "1:0.5/8");
  EXPECT_EQ(Known("cuda"), "");
  // The same layers on an input of another shape.
  spec_.mutable_model()->mutable_block(0)->mutable_layer(1)->mutable_linear()->set_out_features(9);
  EXPECT_EQ(Known(), "");
}

TEST_F(BlockTimesTest, ABlockThatNeedsNoGradientOfItsInputIsAnother) {
  v1::ModelSpec model;
  v1::ModelLayout layout;
  for (int b = 0; b < 3; ++b) {
    model.add_block();
    layout.add_block()->set_segment(b);
  }
  times_.Add(Report({Time(0, 0.5, 1, 8)}), model, layout, "cpu");
  ASSERT_EQ(times_.Find(model, layout, "cpu").size(), 1u);
  times_.Add(Report({Time(2, 0.25, 1, 8)}), model, layout, "cpu");
  ASSERT_EQ(times_.Find(model, layout, "cpu").size(), 3u);
  EXPECT_EQ(times_.Find(model, layout, "cpu")[0].forward_seconds(), 0.5);
  EXPECT_EQ(times_.Find(model, layout, "cpu")[1].forward_seconds(), 0.25);
  // Nor does one whose output has another shape take as long.
  layout.mutable_block(1)->add_output_shape(9);
  EXPECT_EQ(times_.Find(model, layout, "cpu").size(), 2u);
}

TEST_F(BlockTimesTest, ForgetsWhatWasMeasuredLongestAgo) {
  for (const char* backend : {"a", "b", "c"}) {
    times_.Add(Report({Time(1, 0.5, 1, 8)}), spec_.model(), layout(), backend);
  }
  times_.Add(Report({Time(1, 0.5, 1, 8)}), spec_.model(), layout(), "a");
  times_.Add(Report({Time(1, 0.5, 1, 8)}), spec_.model(), layout(), "d");
  EXPECT_EQ(times_.size(), 3u);
  EXPECT_EQ(Known("b"), "");
  for (const char* backend : {"a", "c", "d"}) EXPECT_EQ(Known(backend), "1:0.5/8") << backend;
}

TEST_F(BlockTimesTest, ReportsMustFitTheModel) {
  EXPECT_TRUE(BlockTimes::Check(Report({Time(1, 0, 0.5, 0)}), spec_.model()).ok());
  const absl::Status block = BlockTimes::Check(Report({Time(2, 1, 1, 8)}), spec_.model());
  EXPECT_EQ(block.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(block.message(), "block times: found block 2, expected one below 2");
  for (const double bad :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(BlockTimes::Check(Report({Time(0, bad, 1, 8)}), spec_.model()).ok()) << bad;
    EXPECT_FALSE(BlockTimes::Check(Report({Time(0, 1, bad, 8)}), spec_.model()).ok()) << bad;
  }
}

}  // namespace
}  // namespace sangam
