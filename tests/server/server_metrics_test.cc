#include "server/server_metrics.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/metrics/counters.h"
#include "common/metrics/metric_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Job MakeJob(uint64_t id, v1::JobState state) {
  v1::Job job;
  job.set_id(id);
  job.set_state(state);
  job.mutable_spec()->set_name(absl::StrCat("job-", id));
  job.set_generation(2);
  job.add_worker("w1");
  job.mutable_progress()->set_steps_done(40);
  job.mutable_progress()->set_steps_total(100);
  job.mutable_progress()->set_loss(0.25);
  job.mutable_progress()->set_samples(2560);
  return job;
}

ServerSnapshot::Coordinating Coordinating() {
  ServerSnapshot::Coordinating coordinating;
  const auto add = [&](const char* role, const char* name, bool alive, bool busy) {
    v1::DaemonStatus* const daemon = coordinating.cluster.add_daemon();
    daemon->set_role(role);
    daemon->set_name(name);
    daemon->set_alive(alive);
    daemon->set_silent_ms(1500);
    if (busy) daemon->add_job(7);
  };
  add("worker", "w1", true, true);
  add("worker", "w2", true, false);
  add("worker", "w3", false, false);
  add("server", "s1", true, true);
  coordinating.cluster.mutable_daemon(1)->set_fault("the device is lost");
  coordinating.jobs = {MakeJob(8, v1::SUCCEEDED), MakeJob(7, v1::RUNNING)};
  coordinating.stalls = {{7, absl::Minutes(11), false}};
  return coordinating;
}

std::string Text(const ServerSnapshot& snapshot, const Counters& counters) {
  MetricPage page;
  AddServerMetrics(snapshot, counters, &page);
  return page.Text();
}

TEST(ServerMetricsTest, CoordinatorShowsDaemonsAndJobs) {
  ServerSnapshot snapshot;
  snapshot.coordinating = Coordinating();
  const std::string text = Text(snapshot, Counters());
  for (const char* line : {
           "sangam_workers{state=\"busy\"} 1\n",
           "sangam_workers{state=\"faulty\"} 1\n",
           "sangam_workers{state=\"idle\"} 0\n",
           "sangam_workers{state=\"lost\"} 1\n",
           "sangam_servers{state=\"busy\"} 1\n",
           "sangam_jobs{state=\"running\"} 1\n",
           "sangam_jobs{state=\"succeeded\"} 1\n",
           "sangam_jobs{state=\"failed\"} 0\n",
           "sangam_worker_heartbeat_age_seconds{worker=\"w1\"} 1.5\n",
           "sangam_train_step{job=\"7\"} 40\n",
           "sangam_train_loss{job=\"7\"} 0.25\n",
           "sangam_train_samples_total{job=\"7\"} 2560\n",
           "sangam_job_stalled{job=\"7\"} 1\n",
           "sangam_job_info{job=\"7\",name=\"job-7\",state=\"running\"} 1\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  // Series end with their job.
  EXPECT_THAT(text, Not(HasSubstr("job=\"8\"")));
  // Neither pages nor checkpoints.
  EXPECT_THAT(text, Not(HasSubstr("sangam_push_bytes_total")));
  EXPECT_THAT(text, Not(HasSubstr("sangam_checkpoint")));
}

TEST(ServerMetricsTest, OnlySoManyJobsHaveSeries) {
  ServerSnapshot snapshot;
  snapshot.coordinating.emplace();
  for (uint64_t id = 300; id > 0; --id) {
    snapshot.coordinating->jobs.push_back(MakeJob(id, v1::QUEUED));
  }
  const std::string text = Text(snapshot, Counters());
  EXPECT_THAT(text, HasSubstr("sangam_jobs{state=\"queued\"} 300\n"));
  EXPECT_THAT(text, HasSubstr("sangam_train_step{job=\"201\"}"));
  EXPECT_THAT(text, Not(HasSubstr("sangam_train_step{job=\"200\"}")));
}

TEST(ServerMetricsTest, CheckpointsAndTheDisk) {
  ServerSnapshot snapshot;
  snapshot.coordinating.emplace();
  snapshot.coordinating->keeps_checkpoints = true;
  Counters counters;
  counters.checkpoints = 3;
  counters.checkpoint_us = 4'500'000;
  counters.checkpoint_last_us = 1'500'000;
  counters.checkpoint_success_unix_us = 1'700'000'000'000'000;
  counters.checkpoint_failures[static_cast<size_t>(absl::StatusCode::kResourceExhausted)] = 2;
  counters.disk_stalls = 1;
  const std::string text = Text(snapshot, counters);
  for (const char* line : {"sangam_checkpoints_total 3\n", "sangam_checkpoint_seconds_total 4.5\n",
                           "sangam_checkpoint_duration_seconds 1.5\n",
                           "sangam_checkpoint_last_success_timestamp_seconds 1700000000\n",
                           "sangam_checkpoint_failures_total{reason=\"resource_exhausted\"} 2\n",
                           "sangam_checkpoint_failures_total{reason=\"unavailable\"} 0\n",
                           "sangam_disk_stalls_total 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(ServerMetricsTest, ServerShowsPagesAndTraffic) {
  ServerSnapshot snapshot;
  snapshot.holding.emplace();
  snapshot.holding->jobs = {{7, 2, 5, 4096, false}};
  snapshot.holding->ignored_covered = 3;
  snapshot.holding->memory_bytes = 4096;
  Counters counters;
  counters.push_bytes = 1000;
  counters.AddAggregationWait(2'000);       // 2 ms
  counters.AddAggregationWait(60'000'000);  // a minute
  const std::string text = Text(snapshot, counters);
  for (const char* line :
       {"sangam_push_bytes_total 1000\n", "sangam_pages{job=\"7\"} 5\n",
        "sangam_params_bytes{job=\"7\"} 4096\n", "sangam_dedup_hits_total{kind=\"covered\"} 3\n",
        "sangam_memory_used_bytes{kind=\"parameters\"} 4096\n",
        "sangam_aggregation_wait_seconds_bucket{le=\"0.001\"} 0\n",
        "sangam_aggregation_wait_seconds_bucket{le=\"0.01\"} 1\n",
        "sangam_aggregation_wait_seconds_bucket{le=\"+Inf\"} 2\n",
        "sangam_aggregation_rounds_total 2\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("sangam_memory_limit_bytes")));
}

TEST(ServerMetricsTest, Status) {
  ServerSnapshot snapshot;
  snapshot.coordinating = Coordinating();
  snapshot.holding.emplace();
  snapshot.holding->jobs = {{7, 2, 5, 4096, false}};
  nlohmann::json status;
  AddServerStatus(snapshot, Counters(), &status);
  EXPECT_EQ(status["jobs"][1]["id"], 7);
  EXPECT_EQ(status["jobs"][1]["state"], "running");
  EXPECT_EQ(status["jobs"][1]["step"], 40);
  EXPECT_EQ(status["jobs"][1]["stalled"], true);
  EXPECT_EQ(status["jobs"][1]["workers"][0], "w1");
  EXPECT_EQ(status["peers"][1]["fault"], "the device is lost");
  EXPECT_EQ(status["pages"][0]["bytes"], 4096);
}

}  // namespace
}  // namespace sangam
