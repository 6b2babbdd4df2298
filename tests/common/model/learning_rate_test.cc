#include "common/model/learning_rate.h"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

v1::OptimizerSpec Spec(float learning_rate, const std::string& schedule) {
  v1::OptimizerSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(schedule, spec.mutable_schedule()))
      << schedule;
  spec.set_learning_rate(learning_rate);
  return spec;
}

LearningRate Make(float learning_rate, const std::string& schedule, uint64_t steps_total = 0) {
  return *LearningRate::Create(Spec(learning_rate, schedule), steps_total);
}

TEST(CosPiTest, AgreesWithTheMathematicalLibrary) {
  constexpr double kPi = 3.14159265358979323846;
  for (int i = 0; i <= 100000; ++i) {
    const double x = i / 100000.0;
    ASSERT_NEAR(CosPi(x), std::cos(kPi * x), 1e-15) << x;
  }
  EXPECT_EQ(CosPi(0), 1);
  EXPECT_EQ(CosPi(0.5), 0);
  EXPECT_EQ(CosPi(1), -1);
}

TEST(LearningRateTest, SchedulesDoWhatPyTorchDoes) {
  std::ifstream file("tests/testdata/optimizers.txt");
  int schedules = 0;
  uint64_t steps = 0;
  std::string schedule;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "schedule") {
      line >> steps;
      std::getline(line, schedule);
    }
    if (word != "factors") continue;
    const LearningRate rate = Make(0.3f, schedule, steps);
    double factor = 0;
    uint64_t step = 0;
    for (; line >> factor; ++step) {
      // The reference has nine digits, ours 24 bits.
      ASSERT_NEAR(static_cast<double>(rate.At(step)), 0.3 * factor, 3e-8) << schedule << step;
    }
    EXPECT_EQ(step, 50u);
    ++schedules;
  }
  EXPECT_EQ(schedules, 9);
}

TEST(LearningRateTest, WithoutAScheduleItIsConstant) {
  const LearningRate rate = Make(0.3f, "");
  EXPECT_EQ(rate.At(0), 0.3f);
  EXPECT_EQ(rate.At(uint64_t{1} << 60), 0.3f);
}

TEST(LearningRateTest, WarmUpFromZeroTakesNoStepWithoutEffect) {
  const LearningRate rate = Make(1, "constant {} warmup_steps: 4");
  EXPECT_EQ(rate.At(0), 0.2f);
  EXPECT_EQ(rate.At(3), 0.8f);
  EXPECT_EQ(rate.At(4), 1);
  EXPECT_EQ(Make(1, "warmup_steps: 4 warmup_start: 0").At(0), 0.2f);
  EXPECT_EQ(Make(1, "warmup_steps: 4 warmup_start: 0.5").At(0), 0.5f);
}

TEST(LearningRateTest, StaysAtItsEndAfterTheLastStep) {
  for (const char* schedule : {"linear { end: 0.25 }", "cosine { end: 0.25 }"}) {
    const LearningRate rate = Make(2, schedule, 10);
    EXPECT_EQ(rate.At(0), 2) << schedule;
    EXPECT_GT(rate.At(9), 0.5f) << schedule;
    for (const uint64_t late : {uint64_t{10}, uint64_t{11}, uint64_t{1} << 60}) {
      EXPECT_EQ(rate.At(late), 0.5f) << schedule;
    }
  }
}

TEST(LearningRateTest, ManyStepsEndAtZero) {
  EXPECT_EQ(Make(1, "step { every: 1 factor: 0.5 }").At(uint64_t{1} << 47), 0);
}

// The number of steps is known to servers only when the job runs.
TEST(LearningRateTest, NeedsTheJobsStepsWhereTheScheduleFollowsThem) {
  for (const std::string kind : {"linear", "cosine"}) {
    EXPECT_EQ(LearningRate::Create(Spec(1, kind + " {}"), 0).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(LearningRate::Create(Spec(1, kind + " { decay_steps: 5 }"), 0).ok());
  }
  for (const char* free : {"", "constant {}", "step { every: 5 }", "warmup_steps: 9"}) {
    EXPECT_TRUE(LearningRate::Create(Spec(1, free), 0).ok()) << free;
  }
}

TEST(LearningRateTest, AJobMayEndWithItsWarmUp) {
  const LearningRate rate = Make(1, "cosine {} warmup_steps: 7", 5);
  EXPECT_EQ(rate.At(4), 5.0f / 8);
}

}  // namespace
}  // namespace sangam
