#include "server/core/trace_store.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

constexpr uint64_t kNoon = 1'700'000'000'000'000;  // microseconds

struct Event {
  v1::Activity activity;
  uint64_t begin;  // after noon
  uint64_t duration;
  uint32_t lane = 0;
};

v1::TraceReport Report(uint64_t step, const std::vector<Event>& events) {
  v1::TraceReport report;
  report.set_step(step);
  for (const Event& event : events) {
    v1::TraceEvent* added = report.add_event();
    added->set_activity(event.activity);
    added->set_begin_us(kNoon + event.begin);
    added->set_duration_us(event.duration);
    added->set_lane(event.lane);
  }
  return report;
}

v1::TraceReport Busy(uint64_t step) { return Report(step, {{v1::FORWARD, 0, 1000}}); }

// Two workers of a pipeline and one without shares.
v1::Plan PipelineOf(uint64_t job) {
  v1::Plan plan;
  plan.set_job(job);
  plan.set_ranks(2);
  plan.set_shares(4);
  for (uint32_t i = 0; i < 2; ++i) {
    plan.mutable_layout()->add_block()->set_name(absl::StrCat("block", i));
    v1::StagePlan* stage = plan.add_stage();
    stage->set_first_block(i);
    stage->set_block_count(1);
  }
  for (uint32_t i = 0; i < 3; ++i) {
    v1::WorkerPlan* worker = plan.add_worker();
    worker->set_name(absl::StrCat("w-", i));
    worker->set_rank(i % 2);
    worker->mutable_shares()->set_end(i < 2 ? 4 : 0);
  }
  return plan;
}

// "w-0: 3 5; w-1: 5": the steps that are kept of each worker.
std::string StepsOf(const TraceStore& store, uint64_t job) {
  const auto trace = store.Get(job);
  if (!trace.ok()) return std::string(trace.status().message());
  std::string text;
  for (const v1::WorkerTrace& worker : trace->worker()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", worker.worker(), ":");
    for (const v1::TraceReport& step : worker.step()) absl::StrAppend(&text, " ", step.step());
  }
  return text;
}

TEST(TraceStoreTest, KeepsWhatEachWorkerDid) {
  TraceStore store({});
  store.Begin("mnist", PipelineOf(7));
  EXPECT_NE(StepsOf(store, 7).find("job 7: nothing of it was traced"), std::string::npos);
  store.Add(7, 1, Busy(5));
  store.Add(7, 0, Busy(5));
  store.Add(7, 0, Busy(3));
  const auto trace = store.Get(7);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->job(), 7u);
  EXPECT_EQ(trace->name(), "mnist");
  ASSERT_EQ(trace->block_size(), 2);
  EXPECT_EQ(trace->block(1), "block1");
  ASSERT_EQ(trace->worker_size(), 3);
  EXPECT_EQ(trace->worker(1).rank(), 1u);
  EXPECT_EQ(trace->worker(1).step(0).event(0).begin_us(), kNoon);
  EXPECT_EQ(StepsOf(store, 7), "w-0: 3 5; w-1: 5; w-2:");
}

TEST(TraceStoreTest, UtilizationComesWithTheLastWorkerOfAStep) {
  TraceStore store({});
  store.Begin("job", PipelineOf(1));
  // Waiting is not computing, before, between or after.
  EXPECT_FALSE(store
                   .Add(1, 0,
                        Report(2, {{v1::WAIT, 0, 500},
                                   {v1::FORWARD, 1000, 2000},
                                   {v1::RECEIVE, 3000, 4000},
                                   {v1::BACKWARD, 7000, 3000},
                                   {v1::PUSH, 10'000, 9000}}))
                   .has_value());
  const auto utilization = store.Add(1, 1,
                                     Report(2, {{v1::FORWARD, 3000, 1000},
                                                {v1::LOSS, 4000, 500},
                                                {v1::BACKWARD, 4500, 1000},
                                                {v1::WEIGHT_GRADIENT, 5500, 500}}));
  ASSERT_TRUE(utilization.has_value());
  EXPECT_EQ(utilization->step(), 2u);
  EXPECT_DOUBLE_EQ(utilization->span_seconds(), 0.009);
  EXPECT_DOUBLE_EQ(utilization->bubble(), 1 - (5.0 + 3.0) / 2 / 9.0);
}

TEST(TraceStoreTest, UtilizationIsAMeanOverWorkersOfTheMeanOverTheirLanes) {
  TraceStore store({});
  store.Begin("job", PipelineOf(1));
  store.Add(1, 0, Report(0, {{v1::FORWARD, 0, 100, 0}, {v1::FORWARD, 0, 50, 1}}));
  auto utilization = store.Add(1, 1, Report(0, {{v1::FORWARD, 0, 60, 0}}));
  ASSERT_TRUE(utilization.has_value());
  EXPECT_DOUBLE_EQ(utilization->bubble(), 1 - (0.75 + 0.6) / 2);
  // A lane that did not compute counts, and so does a worker.
  store.Add(1, 0, Report(1, {{v1::FORWARD, 0, 100, 3}}));
  utilization = store.Add(1, 1, Report(1, {{v1::WAIT, 0, 100, 0}}));
  EXPECT_DOUBLE_EQ(utilization->bubble(), 1 - (0.25 + 0) / 2);
  v1::Plan plan = PipelineOf(2);
  plan.set_lanes(2);
  store.Begin("job", plan);
  store.Add(2, 0, Report(0, {{v1::FORWARD, 0, 100, 0}}));
  utilization = store.Add(2, 1, Report(0, {{v1::FORWARD, 0, 100, 0}}));
  EXPECT_DOUBLE_EQ(utilization->bubble(), 0.5);
}

TEST(TraceStoreTest, WorkersWithoutSharesDoNotCount) {
  TraceStore store({});
  store.Begin("job", PipelineOf(1));
  store.Add(1, 0, Busy(0));
  EXPECT_FALSE(store.Add(1, 2, Report(0, {{v1::FORWARD, 0, 9000}})).has_value());
  const auto utilization = store.Add(1, 1, Busy(0));
  ASSERT_TRUE(utilization.has_value());
  EXPECT_DOUBLE_EQ(utilization->span_seconds(), 0.001);
  EXPECT_EQ(utilization->bubble(), 0);
  EXPECT_EQ(StepsOf(store, 1), "w-0: 0; w-1: 0; w-2: 0");
}

TEST(TraceStoreTest, UtilizationIsOfTheNewestStepAndCountsOnce) {
  TraceStore store({});
  store.Begin("job", PipelineOf(1));
  store.Add(1, 0, Busy(4));
  store.Add(1, 0, Busy(8));
  EXPECT_EQ(store.Add(1, 1, Busy(8))->step(), 8u);
  EXPECT_FALSE(store.Add(1, 1, Busy(8)).has_value());
  EXPECT_FALSE(store.Add(1, 1, Busy(4)).has_value());
  EXPECT_EQ(StepsOf(store, 1), "w-0: 4 8; w-1: 4 8; w-2:");
}

TEST(TraceStoreTest, NumbersThatDoNotAddUpGiveAPartOfOne) {
  TraceStore store({});
  store.Begin("job", PipelineOf(1));
  const std::vector<Event> overlapping = {
      {v1::FORWARD, 0, 100}, {v1::FORWARD, 0, 100}, {v1::FORWARD, 0, 100}};
  store.Add(1, 0, Report(0, overlapping));
  EXPECT_EQ(store.Add(1, 1, Report(0, overlapping))->bubble(), 0);
  store.Add(1, 0, Report(1, {}));
  EXPECT_EQ(store.Add(1, 1, Report(1, {}))->bubble(), 0);
  store.Add(1, 0, Report(2, {{v1::FORWARD, UINT64_MAX - kNoon, UINT64_MAX}}));
  const auto huge = store.Add(1, 1, Report(2, {{v1::FORWARD, 0, UINT64_MAX}}));
  EXPECT_GE(huge->bubble(), 0);
  EXPECT_LE(huge->bubble(), 1);
}

TEST(TraceStoreTest, KeepsTheNewestStepsOfTheNewestJobs) {
  TraceStore store({2, 3, 1 << 20});
  for (uint64_t job = 1; job <= 3; ++job) store.Begin("job", PipelineOf(job));
  EXPECT_EQ(store.size(), 2u);
  for (uint64_t step = 0; step < 10; ++step) {
    store.Add(1, 0, Busy(step));
    store.Add(3, 0, Busy(step));
    store.Add(3, 1, Busy(step));
  }
  EXPECT_EQ(StepsOf(store, 3), "w-0: 7 8 9; w-1: 7 8 9; w-2:");
  // What is older than all that is kept does not come back.
  store.Add(3, 0, Busy(1));
  EXPECT_EQ(StepsOf(store, 3), "w-0: 7 8 9; w-1: 7 8 9; w-2:");
  EXPECT_FALSE(store.Get(1).ok());
}

TEST(TraceStoreTest, AJobFitsOneMessage) {
  constexpr size_t kMaxBytes = 20'000;
  TraceStore store({8, 64, kMaxBytes});
  store.Begin("job", PipelineOf(1));
  const std::vector<Event> many(100, Event{v1::FORWARD, 1, 1});
  for (uint64_t step = 0; step < 20; ++step) {
    store.Add(1, 0, Report(step, many));
    store.Add(1, 1, Report(step, many));
    ASSERT_LE(store.Get(1)->ByteSizeLong(), kMaxBytes);
  }
  EXPECT_GT(store.Get(1)->ByteSizeLong(), kMaxBytes * 3 / 4);
  EXPECT_EQ(store.Get(1)->worker(0).step().rbegin()->step(), 19u);
  // A report that does not fit even alone is left out, yet the step's utilization is known.
  const std::vector<Event> too_many(2000, Event{v1::FORWARD, 1, 1});
  store.Add(1, 0, Report(20, {{v1::FORWARD, 1, 1}}));
  EXPECT_TRUE(store.Add(1, 1, Report(20, too_many)).has_value());
  EXPECT_EQ(store.Get(1)->worker(0).step().rbegin()->step(), 20u);
  EXPECT_LE(store.Get(1)->ByteSizeLong(), kMaxBytes);
}

TEST(TraceStoreTest, ANewGenerationBeginsAnew) {
  TraceStore store({});
  store.Begin("job", PipelineOf(1));
  store.Add(1, 0, Busy(9));
  store.Add(1, 1, Busy(9));
  store.Begin("job", PipelineOf(1));
  EXPECT_FALSE(store.Get(1).ok());
  store.Add(1, 0, Busy(8));
  EXPECT_EQ(store.Add(1, 1, Busy(8))->step(), 8u);
}

TEST(TraceStoreTest, ReportsMustFitTheJob) {
  const v1::Plan plan = PipelineOf(1);
  EXPECT_TRUE(TraceStore::Check(Busy(9), plan, 10).ok());
  EXPECT_EQ(TraceStore::Check(Busy(10), plan, 10).message(),
            "trace of step 10: expected a step below 10");
  v1::TraceReport report = Busy(0);
  report.mutable_event(0)->set_block(2);
  EXPECT_EQ(
      TraceStore::Check(report, plan, 10).message(),
      "trace of step 0: found activity 1 of block 2, expected a known one of a block below 2");
  report = Busy(0);
  report.mutable_event(0)->set_lane(3);
  EXPECT_TRUE(TraceStore::Check(report, plan, 10).ok());
  report.mutable_event(0)->set_lane(4);
  EXPECT_EQ(TraceStore::Check(report, plan, 10).message(),
            "trace of step 0: found lane 4, expected one below 4");
  report = Report(0, std::vector<Event>(131072, Event{v1::FORWARD, 1, 1}));
  EXPECT_TRUE(TraceStore::Check(report, plan, 10).ok());
  *report.add_event() = report.event(0);
  EXPECT_EQ(TraceStore::Check(report, plan, 10).message(),
            "trace of step 0: found 131073 events, expected at most 131072");
  for (const int activity : {0, 99}) {
    report = Busy(0);
    report.mutable_event(0)->set_activity(static_cast<v1::Activity>(activity));
    EXPECT_EQ(TraceStore::Check(report, plan, 10).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace sangam
