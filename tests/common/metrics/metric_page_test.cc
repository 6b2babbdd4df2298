#include "common/metrics/metric_page.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(MetricPageTest, WritesPrometheusText) {
  MetricPage page;
  page.Gauge("sangam_workers", "Workers", 2, {{"state", "alive"}});
  page.Counter("sangam_push_bytes_total", "Bytes", 7);
  page.Gauge("sangam_workers", "Workers", 1, {{"state", "lost"}});
  MetricPage::Histogram histogram;
  histogram.buckets = {{0.5, 3}, {1, 4}};
  histogram.count = 5;
  histogram.sum = 9.5;
  page.AddHistogram("sangam_rpc_duration_seconds", "Time", histogram, {{"method", "a/b"}});
  const std::string text = page.Text();
  EXPECT_THAT(text, HasSubstr("# HELP sangam_workers Workers\n# TYPE sangam_workers gauge\n"
                              "sangam_workers{state=\"alive\"} 2\n"
                              "sangam_workers{state=\"lost\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE sangam_push_bytes_total counter\n"
                              "sangam_push_bytes_total 7\n"));
  EXPECT_THAT(text, HasSubstr("sangam_rpc_duration_seconds_bucket{method=\"a/b\",le=\"0.5\"} 3\n"));
  EXPECT_THAT(text,
              HasSubstr("sangam_rpc_duration_seconds_bucket{method=\"a/b\",le=\"+Inf\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("sangam_rpc_duration_seconds_sum{method=\"a/b\"} 9.5\n"));
}

TEST(MetricPageTest, EscapesAndBoundsWhatPeersChoose) {
  MetricPage page;
  page.Gauge("x", "X", 1, {{"name", "a\"\n\\" + std::string(1000, 'y')}});
  for (int i = 0; i < 5000; ++i) page.Gauge("many", "M", i, {{"job", absl::StrCat(i)}});
  const std::string text = page.Text();
  EXPECT_THAT(text, HasSubstr("x{name=\"a\\\"\\n\\\\" + std::string(60, 'y') + "\"} 1\n"));
  EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')),
            3 + 2 + MetricPage::kMaxSeries);
}

}  // namespace
}  // namespace sangam
