#include "common/rpc/report_queue.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"

namespace sangam {
namespace {

v1::JobReport Report(uint64_t step, size_t bytes = 0) {
  v1::JobReport report;
  report.mutable_step()->set_step(step);
  if (bytes > 0) report.mutable_failed()->set_message(std::string(bytes, 'x'));
  return report;
}

TEST(ReportQueueTest, KeepsTheOrderAndWhatIsNotRemoved) {
  ReportQueue queue(10);
  EXPECT_TRUE(queue.empty());
  for (uint64_t step = 0; step < 3; ++step) EXPECT_TRUE(queue.Add(7, 1, Report(step)));
  const v1::ReportRequest first = queue.Front();
  EXPECT_EQ(first.job(), 7u);
  EXPECT_EQ(first.generation(), 1u);
  ASSERT_EQ(first.report_size(), 3);
  EXPECT_EQ(first.report(2).step().step(), 2u);
  EXPECT_EQ(queue.size(), 3u);
  queue.Remove(2);
  ASSERT_EQ(queue.Front().report_size(), 1);
  EXPECT_EQ(queue.Front().report(0).step().step(), 2u);
  queue.Remove(1);
  EXPECT_TRUE(queue.empty());
}

TEST(ReportQueueTest, OneCallCarriesOneJobAndGeneration) {
  ReportQueue queue(10);
  queue.Add(7, 1, Report(0));
  queue.Add(7, 1, Report(1));
  queue.Add(7, 2, Report(2));
  queue.Add(8, 2, Report(3));
  queue.Add(7, 2, Report(4));
  EXPECT_EQ(queue.Front().report_size(), 2);
  queue.Remove(2);
  EXPECT_EQ(queue.Front().report_size(), 1);
  EXPECT_EQ(queue.Front().generation(), 2u);
  queue.Remove(1);
  EXPECT_EQ(queue.Front().job(), 8u);
}

TEST(ReportQueueTest, OneCallCarriesAtMost1024) {
  ReportQueue queue(2000);
  for (uint64_t step = 0; step < 2000; ++step) queue.Add(7, 1, Report(step));
  EXPECT_EQ(queue.Front().report_size(), 1024);
  queue.Remove(1024);
  EXPECT_EQ(queue.Front().report_size(), 976);
  EXPECT_EQ(queue.Front().report(0).step().step(), 1024u);
}

TEST(ReportQueueTest, OneCallIsShortUnlessOneReportIsLong) {
  ReportQueue queue(100);
  queue.Add(7, 1, Report(0, 1'000'000));
  for (uint64_t step = 0; step < 20; ++step) queue.Add(7, 1, Report(0, 100'000));
  EXPECT_EQ(queue.Front().report_size(), 1);
  queue.Remove(1);
  EXPECT_EQ(queue.Front().report_size(), 2);
}

TEST(ReportQueueTest, IsBounded) {
  ReportQueue queue(2);
  EXPECT_TRUE(queue.Add(7, 1, Report(0)));
  EXPECT_TRUE(queue.Add(7, 1, Report(1)));
  EXPECT_FALSE(queue.Add(7, 1, Report(2)));
  EXPECT_EQ(queue.size(), 2u);
  queue.Remove(1);
  EXPECT_TRUE(queue.Add(7, 1, Report(2)));
}

TEST(ReportQueueTest, WhatMayBeLostGivesWayWhenHalfOfTheRoomIsTaken) {
  v1::JobReport trace;
  trace.mutable_trace()->set_step(1);
  ReportQueue queue(4);
  EXPECT_TRUE(queue.Add(7, 1, trace));
  EXPECT_TRUE(queue.Add(7, 1, Report(0)));
  EXPECT_TRUE(queue.Add(7, 1, trace));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_TRUE(queue.Add(7, 1, Report(1)));
  EXPECT_EQ(queue.size(), 3u);
}

}  // namespace
}  // namespace sangam
