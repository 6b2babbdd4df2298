#include "client/commands/plan.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class PlanTest : public CommandFixture {
 protected:
  PlanTest() : file_(WriteFile("job.textproto", "name: \"mlp\" epochs: 3")) {
    environment_.coordinator = coordinator_.address();
    v1::StrategyForecast& forecast = *report_.add_forecast();
    forecast.set_strategy(v1::DATA_PARALLEL);
    forecast.set_fits(true);
    report_.set_feasible(true);
    report_.set_explanation("the only one");
    coordinator_.SetPlan(report_);
  }

  const std::string file_;
  FakeCoordinator coordinator_;
  v1::PlanReport report_;
};

TEST_F(PlanTest, AsksTheCoordinatorAndRunsNothing) {
  EXPECT_EQ(Run({"plan", file_, "--set", "resources.workers=4"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("\nchosen       DATA_PARALLEL\nwhy          the only one\n"));
  ASSERT_EQ(coordinator_.planned().size(), 1u);
  EXPECT_EQ(coordinator_.planned()[0].spec().name(), "mlp");
  EXPECT_EQ(coordinator_.planned()[0].spec().resources().workers(), 4u);
  EXPECT_EQ(coordinator_.submitted().size(), 0u);
}

TEST_F(PlanTest, JsonIsTheWholeReport) {
  EXPECT_EQ(Run({"plan", file_, "--output=json"}), 0) << err();
  const nlohmann::json json = nlohmann::json::parse(out());
  EXPECT_EQ(json["forecast"][0]["strategy"], "DATA_PARALLEL");
  EXPECT_EQ(json["explanation"], "the only one");
}

TEST_F(PlanTest, AJobThatCannotRunIsAFailure) {
  report_.set_feasible(false);
  coordinator_.SetPlan(report_);
  EXPECT_EQ(Run({"plan", file_}), 1);
  EXPECT_THAT(out(), HasSubstr("\nchosen       none\n"));
  EXPECT_EQ(Run({"plan", file_, "--output=json"}), 1);
}

TEST_F(PlanTest, FaultsOfTheJobAreShown) {
  coordinator_.RefuseJobs(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "epochs: found 0"));
  EXPECT_EQ(Run({"plan", file_}), 1);
  EXPECT_EQ(err(), "sangam plan: epochs: found 0\n");
  EXPECT_EQ(Run({"plan", directory_ + "/none"}), 5);
  EXPECT_EQ(Run({"plan", file_, "--set", "epoch=1"}), 2);
}

}  // namespace
}  // namespace sangam
