#include "worker/worker_metrics.h"

#include <string>

#include "common/base/refusal_counts.h"
#include "common/metrics/counters.h"
#include "common/metrics/metric_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "worker/report_counts.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class NoSink : public ReportSink {
 public:
  void Report(uint64_t, uint64_t, v1::JobReport) override {}
};

TEST(WorkerMetricsTest, ShowsPhasesAndJobs) {
  NoSink none;
  ReportCounts reports(&none);
  v1::JobReport step;
  step.mutable_step()->set_step(9);
  reports.Report(7, 1, step);
  Counters counters;
  counters.AddPhase(StepPhase::kForward, 3'000'000);
  counters.AddPhase(StepPhase::kPull, 1'000'000);
  WorkerMetrics::Facts facts;
  facts.backend = "cuda";
  facts.device.set_name("H200");
  facts.device.set_memory_bytes(1000);
  facts.threads = 1;
  facts.flops_per_second = 5;
  RefusalCounts refusals;
  refusals.Add(Refusal::kMessageSize);
  const WorkerMetrics metrics(facts, &reports, &counters, &refusals);
  MetricPage page;
  metrics.AddMetrics(&page);
  const std::string text = page.Text();
  for (const char* line :
       {"sangam_step_phase_seconds_total{phase=\"forward\"} 3\n",
        "sangam_step_phase_seconds_total{phase=\"wait\"} 0\n",
        "sangam_worker_queue_wait_ratio 0.25\n", "sangam_worker_step{job=\"7\"} 10\n",
        "sangam_worker_steps_total 1\n", "sangam_worker_jobs_total{result=\"failed\"} 0\n",
        "sangam_gpu_memory_bytes{device=\"H200\"} 1000\n",
        "sangam_admission_rejected_total{reason=\"message_size\"} 1\n",
        "sangam_admission_rejected_total{reason=\"calls\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  nlohmann::json status;
  metrics.AddStatus(&status);
  EXPECT_EQ(status["jobs"][0]["step"], 10);
  EXPECT_EQ(status["device"]["name"], "H200");
}

}  // namespace
}  // namespace sangam
