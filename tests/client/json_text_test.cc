#include "client/json_text.h"

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

TEST(JsonTextTest, KeepsFieldNamesAndWritesZeros) {
  v1::DaemonStatus daemon;
  daemon.set_name("w\"1");
  daemon.set_silent_ms(5);
  const auto line = ToJsonLine(daemon);
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(*line);
  EXPECT_EQ(json["name"], "w\"1");
  EXPECT_EQ(json["silent_ms"], "5");
  EXPECT_EQ(json["alive"], false);
  EXPECT_EQ(json["threads"], 0);
}

TEST(JsonTextTest, IndentsWithoutChangingTheContent) {
  v1::Cluster cluster;
  cluster.add_daemon()->set_name("a");
  const auto indented = ToJsonIndented(cluster);
  ASSERT_TRUE(indented.ok());
  EXPECT_NE(indented->find('\n'), std::string::npos);
  EXPECT_NE(indented->back(), '\n');
  EXPECT_EQ(nlohmann::json::parse(*indented), nlohmann::json::parse(*ToJsonLine(cluster)));
}

TEST(JsonTextTest, ATimeOutsideOfTheCalendarIsAnError) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(int64_t{1} << 60);
  EXPECT_EQ(ToJsonLine(event).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(JsonTextTest, MetricsOfAStep) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(1'700'000'000);
  event.mutable_time()->set_nanos(250'000'000);
  event.mutable_step()->set_step(7);
  event.mutable_step()->set_epoch(1);
  event.mutable_step()->set_loss(0.5);
  event.mutable_step()->set_samples(256);
  event.mutable_step()->set_samples_per_second(1000.25);
  EXPECT_EQ(MetricsLine(event),
            "{\"kind\":\"step\",\"time\":\"2023-11-14T22:13:20.25+00:00\",\"step\":7,\"epoch\":1,"
            "\"loss\":0.5,\"samples\":256,\"samples_per_second\":1000.25}");
}

TEST(JsonTextTest, MetricsOfAnEvaluation) {
  v1::JobEvent event;
  event.mutable_evaluation()->set_step(705);
  event.mutable_evaluation()->set_samples(10000);
  event.mutable_evaluation()->set_correct(8912);
  event.mutable_evaluation()->set_loss(0.25);
  event.mutable_evaluation()->set_accuracy(0.8912);
  EXPECT_EQ(MetricsLine(event),
            "{\"kind\":\"evaluation\",\"time\":\"1970-01-01T00:00:00+00:00\",\"step\":705,"
            "\"accuracy\":0.8912,\"loss\":0.25,\"correct\":8912,\"samples\":10000}");
}

TEST(JsonTextTest, NumbersThatJsonDoesNotKnowAreNull) {
  v1::JobEvent event;
  event.mutable_step()->set_loss(std::nan(""));
  EXPECT_TRUE(nlohmann::json::parse(MetricsLine(event))["loss"].is_null());
}

TEST(JsonTextTest, OtherEventsHaveNoMetrics) {
  v1::JobEvent event;
  EXPECT_EQ(MetricsLine(event), "");
  event.mutable_state()->set_state(v1::RUNNING);
  EXPECT_EQ(MetricsLine(event), "");
}

}  // namespace
}  // namespace sangam
