#include "worker/rpc/flow_registry.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "tests/testing/flow_plan.h"
#include "worker/runtime/flow_exchange.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam {
namespace {

std::shared_ptr<FlowExchange> Exchange(const v1::Plan& plan) {
  PipelineLinkOptions options;
  options.plan = &plan;
  options.max_rows = 1;
  absl::StatusOr<std::shared_ptr<FlowExchange>> exchange = FlowExchange::Create(options);
  EXPECT_TRUE(exchange.ok()) << exchange.status();
  return *exchange;
}

TEST(FlowRegistryTest, AJobIsFoundFromItsPreparationUntilItIsLetGo) {
  const v1::Plan plan = testing::MakePlan(testing::FlowPlan());
  const auto first = Exchange(plan);
  const auto second = Exchange(plan);
  FlowRegistry registry;
  EXPECT_EQ(registry.Find(plan.job()).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(registry.Add(first).ok());
  EXPECT_EQ(registry.Find(plan.job()).value(), first);
  EXPECT_EQ(registry.Find(plan.job() + 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(registry.Add(second).code(), absl::StatusCode::kAlreadyExists);
  // Another one stands in its place: nothing happens.
  registry.Remove(second.get());
  EXPECT_EQ(registry.Find(plan.job()).value(), first);
  registry.Remove(first.get());
  EXPECT_EQ(registry.Find(plan.job()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(registry.Add(second).ok());
  registry.Remove(second.get());
}

}  // namespace
}  // namespace sangam
