#include "common/metrics/process_metrics.h"

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/refusal_counts.h"
#include "common/metrics/call_counts.h"
#include "common/metrics/metric_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(ProcessMetricsTest, TellsWhatTheSystemSays) {
  const ProcessFacts facts = ReadProcessFacts();
  EXPECT_GT(facts.resident_bytes.value(), 1e5);
  EXPECT_GT(facts.virtual_bytes.value(), facts.resident_bytes.value());
  EXPECT_GE(facts.open_fds.value(), 3);
  EXPECT_GE(facts.max_fds.value(), facts.open_fds.value());
  EXPECT_GE(facts.threads.value(), 1);
  EXPECT_GE(facts.cpu_seconds.value(), 0);
  EXPECT_LT(absl::AbsDuration(absl::Now() - facts.started.value()), absl::Minutes(5));
}

TEST(ProcessMetricsTest, FillsThePage) {
  CallCounts calls;
  calls.Add("/a/B", "OK", absl::Milliseconds(1));
  RefusalCounts refusals;
  refusals.Add(Refusal::kQueuedJobs);
  MetricPage page;
  AddProcessMetrics("worker", &page);
  AddCallMetrics(calls, &page);
  AddRefusals(refusals, &page);
  const std::string text = page.Text();
  EXPECT_THAT(text, HasSubstr("sangam_build_info{"));
  EXPECT_THAT(text, HasSubstr("role=\"worker\""));
  EXPECT_THAT(text, HasSubstr("sangam_rpc_requests_total{method=\"a/B\",code=\"OK\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("sangam_rpc_duration_seconds_bucket{method=\"a/B\",le=\"0.001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("sangam_admission_rejected_total{reason=\"queued_jobs\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("sangam_admission_rejected_total{reason=\"stalled_call\"} 0\n"));
  for (const char* name : {"cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds",
                           "start_time_seconds", "virtual_memory_bytes", "threads"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\nprocess_") + name + " ")) << name;
  }
}

}  // namespace
}  // namespace sangam
