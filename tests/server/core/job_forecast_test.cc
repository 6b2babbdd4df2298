#include "server/core/job_forecast.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"
#include "tests/server/core/control_fixtures.h"

namespace sangam {
namespace {

using testing::Daemon;
using testing::LayoutOf;
using testing::Registration;
using testing::SmallJob;

class JobForecastTest : public ::testing::Test {
 protected:
  JobForecastTest() {
    for (const char* name : {"w-1", "w-2"}) {
      workers_.push_back(Registration(Daemon(v1::WORKER, name)));
      workers_.back().set_flops_per_second(5e9);
      workers_.back().set_memory_bytes(1 << 30);
    }
  }

  ClusterView View() const {
    std::vector<const v1::RegisterRequest*> workers;
    for (const v1::RegisterRequest& worker : workers_) workers.push_back(&worker);
    return ViewOf(workers, 1e9, times_, spec_, layout_);
  }
  v1::PlanReport Forecast() const { return PlanJob(spec_, layout_, View()).value(); }
  absl::Status Check() const { return CheckFits(spec_, layout_, View()); }

  v1::JobSpec spec_ = SmallJob("job", 2, 3);
  v1::ModelLayout layout_ = LayoutOf(spec_);
  std::vector<v1::RegisterRequest> workers_;
  BlockTimes times_;
};

TEST_F(JobForecastTest, ThePlannerKnowsWhatTheDaemonsSayOfThemselves) {
  const v1::ClusterFacts facts = Forecast().cluster();
  ASSERT_EQ(facts.worker_size(), 2);
  EXPECT_EQ(facts.worker(0).name(), "w-1");
  EXPECT_EQ(facts.worker(1).name(), "w-2");
  EXPECT_EQ(facts.worker(1).memory_bytes(), uint64_t{1} << 30);
  EXPECT_EQ(facts.worker(1).flops_per_second(), 5e9);
  EXPECT_EQ(facts.worker(1).threads(), 2u);
  EXPECT_EQ(facts.servers(), 3u);
  EXPECT_EQ(facts.link_bytes_per_second(), 1e9);
}

TEST_F(JobForecastTest, AJobThatFitsCanRun) {
  EXPECT_TRUE(Forecast().feasible()) << Forecast().explanation();
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(JobForecastTest, WithTooFewWorkersAPlanSaysSoAndAJobWaits) {
  spec_.mutable_resources()->set_workers(3);
  EXPECT_EQ(Forecast().cluster().worker_size(), 2);
  EXPECT_NE(Forecast().explanation().find("for the 2 of 3 workers"), std::string::npos)
      << Forecast().explanation();
  workers_[1].set_memory_bytes(100);
  EXPECT_TRUE(Check().ok()) << Check();
  workers_.clear();
  EXPECT_EQ(PlanJob(spec_, layout_, View()).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Check().ok()) << Check();
}

TEST_F(JobForecastTest, TooLittleMemoryIsTheClustersFault) {
  workers_[1].set_memory_bytes(100);
  const absl::Status status = Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("worker w-2 needs"), absl::string_view::npos) << status;
}

TEST_F(JobForecastTest, TooFewThreadsAreTheClustersFault) {
  spec_.set_strategy(v1::MODEL_PARALLEL);
  for (const uint32_t shares : {1u << 17, 1u}) {
    spec_.mutable_batch()->set_size(1 << 17);
    spec_.mutable_batch()->set_micro_batches(1 << 17);
    spec_.mutable_batch()->set_shares(shares);
    const absl::Status status = Check();
    // A share is one lane's, whatever threads there are.
    EXPECT_EQ(status.code(), shares == 1 ? absl::StatusCode::kInvalidArgument
                                         : absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("forward passes of 2 stages on each of"),
              absl::string_view::npos)
        << status;
  }
}

TEST_F(JobForecastTest, WhatNoMemoryCanMendIsTheSpecificationsFault) {
  spec_.set_strategy(v1::HYBRID);
  for (const uint64_t memory : {uint64_t{1} << 30, uint64_t{100}}) {
    workers_[1].set_memory_bytes(memory);
    EXPECT_EQ(Check().code(), absl::StatusCode::kInvalidArgument) << Check();
  }
}

TEST_F(JobForecastTest, TimesOfBlocksCountWhenTheWorkersHaveTheSameBackend) {
  EXPECT_FALSE(Forecast().measured());
  v1::BlockTimesReport report;
  for (uint32_t block = 0; block < 2; ++block) {
    v1::BlockTime* time = report.add_block();
    time->set_block(block);
    time->set_forward_seconds(3);
    time->set_backward_seconds(5);
    time->set_samples(8);
  }
  times_.Add(report, spec_.model(), layout_, "cpu");
  EXPECT_TRUE(Forecast().measured());
  workers_[1].set_backend("cuda");
  EXPECT_FALSE(Forecast().measured());
}

}  // namespace
}  // namespace sangam
