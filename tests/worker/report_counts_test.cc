#include "worker/report_counts.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"

namespace sangam {
namespace {

class CountingSink : public ReportSink {
 public:
  void Report(uint64_t, uint64_t, v1::JobReport) override { ++reports; }
  int reports = 0;
};

v1::JobReport Step(uint64_t step) {
  v1::JobReport report;
  report.mutable_step()->set_step(step);
  return report;
}

TEST(ReportCountsTest, RemembersWhereJobsAreUntilTheyEnd) {
  CountingSink sink;
  ReportCounts counts(&sink);
  counts.Report(7, 2, Step(3));
  counts.Report(7, 2, Step(4));
  counts.Report(8, 1, Step(0));
  ASSERT_EQ(counts.Jobs().size(), 2u);
  EXPECT_EQ(counts.Jobs()[0].job, 7u);
  EXPECT_EQ(counts.Jobs()[0].generation, 2u);
  EXPECT_EQ(counts.Jobs()[0].steps, 5u);
  v1::JobReport finished;
  finished.mutable_finished();
  counts.Report(7, 2, finished);
  v1::JobReport failed;
  failed.mutable_failed();
  counts.Report(8, 1, failed);
  EXPECT_TRUE(counts.Jobs().empty());
  EXPECT_EQ(counts.steps(), 3u);
  EXPECT_EQ(counts.finished(), 1u);
  EXPECT_EQ(counts.failed(), 1u);
  EXPECT_EQ(sink.reports, 5);
}

TEST(ReportCountsTest, IsBounded) {
  CountingSink sink;
  ReportCounts counts(&sink);
  for (uint64_t job = 1; job <= 1000; ++job) counts.Report(job, 1, Step(0));
  EXPECT_EQ(counts.Jobs().size(), 64u);
  EXPECT_EQ(counts.Jobs().back().job, 1000u);
}

}  // namespace
}  // namespace sangam
