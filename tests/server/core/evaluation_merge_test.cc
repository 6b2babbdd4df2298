#include "server/core/evaluation_merge.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"

namespace sangam {
namespace {

constexpr EvaluationMerge::Share kFirst{0, 2};
constexpr EvaluationMerge::Share kSecond{1, 2};
constexpr EvaluationMerge::Share kOnly{0, 1};

struct Chunk {
  uint32_t index;
  uint64_t samples;
  uint64_t correct;
  double loss_sum;
};

v1::EvaluationReport Report(uint64_t step, const std::vector<Chunk>& chunks,
                            uint32_t chunks_total = 3) {
  v1::EvaluationReport report;
  report.set_step(step);
  report.set_chunks_total(chunks_total);
  for (const Chunk& chunk : chunks) {
    v1::EvaluationChunk* added = report.add_chunk();
    added->set_chunk(chunk.index);
    added->set_samples(chunk.samples);
    added->set_correct(chunk.correct);
    added->set_loss_sum(chunk.loss_sum);
  }
  return report;
}

// 5 samples in chunks of 2, 2 and 1; 10 steps.
EvaluationMerge SmallMerge() { return EvaluationMerge({5, 2, 1}, 10); }

TEST(EvaluationMergeTest, IsCompleteWhenEveryChunkHasCome) {
  EvaluationMerge merge = SmallMerge();
  EXPECT_EQ(merge.Add(Report(10, {{0, 2, 1, 3.0}, {2, 1, 1, 0.5}}), kFirst).value(), std::nullopt);
  EXPECT_EQ(merge.last_complete(), std::nullopt);
  const auto evaluation = merge.Add(Report(10, {{1, 2, 2, 1.5}}), kSecond);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  ASSERT_TRUE(evaluation->has_value());
  EXPECT_EQ((*evaluation)->step(), 10u);
  EXPECT_EQ((*evaluation)->samples(), 5u);
  EXPECT_EQ((*evaluation)->correct(), 4u);
  EXPECT_EQ((*evaluation)->accuracy(), 0.8);
  EXPECT_EQ((*evaluation)->loss(), 1.0);
  EXPECT_EQ(merge.last_complete(), 10u);
  EXPECT_EQ(merge.num_open(), 0u);
}

TEST(EvaluationMergeTest, TheSumRunsOverTheChunksInOrderWhoeverComesFirst) {
  const double expected = ((1e16 + 1.0) + -1e16) / 5;
  EvaluationMerge forwards = SmallMerge();
  ASSERT_TRUE(forwards.Add(Report(1, {{0, 2, 0, 1e16}, {2, 1, 0, -1e16}}), kFirst).ok());
  EXPECT_EQ(forwards.Add(Report(1, {{1, 2, 0, 1.0}}), kSecond).value()->loss(), expected);
  EvaluationMerge backwards = SmallMerge();
  ASSERT_TRUE(backwards.Add(Report(1, {{1, 2, 0, 1.0}}), kSecond).ok());
  EXPECT_EQ(backwards.Add(Report(1, {{2, 1, 0, -1e16}, {0, 2, 0, 1e16}}), kFirst).value()->loss(),
            expected);
}

TEST(EvaluationMergeTest, WhatComesTwiceCountsOnce) {
  EvaluationMerge merge = SmallMerge();
  ASSERT_TRUE(merge.Add(Report(3, {{0, 2, 1, 1.0}}), kFirst).ok());
  ASSERT_TRUE(merge.Add(Report(3, {{0, 2, 2, 9.0}}), kFirst).ok());
  ASSERT_TRUE(merge.Add(Report(3, {{2, 1, 0, 1.0}}), kFirst).ok());
  EXPECT_EQ(merge.Add(Report(3, {{1, 2, 0, 1.0}}), kSecond).value()->correct(), 1u);
  // A copy of a complete evaluation, and of an older one.
  EXPECT_EQ(merge.Add(Report(3, {{1, 2, 0, 1.0}}), kSecond).value(), std::nullopt);
  EXPECT_EQ(merge.Add(Report(2, {{1, 2, 0, 1.0}}), kSecond).value(), std::nullopt);
  EXPECT_EQ(merge.num_open(), 0u);
}

TEST(EvaluationMergeTest, RefusesWhatDoesNotFit) {
  EvaluationMerge merge = SmallMerge();
  const std::vector<v1::EvaluationReport> bad = {
      Report(11, {{0, 2, 1, 1.0}}),    // beyond the last step
      Report(1, {{0, 2, 1, 1.0}}, 4),  // another number of chunks
      Report(1, {{1, 2, 1, 1.0}}),     // another worker's chunk
      Report(1, {{4, 2, 1, 1.0}}, 3),  // no such chunk
      Report(1, {{0, 1, 1, 1.0}}),     // too few samples
      Report(1, {{0, 2, 3, 1.0}}),     // more correct than there are
  };
  for (const v1::EvaluationReport& report : bad) {
    EXPECT_EQ(merge.Add(report, kFirst).status().code(), absl::StatusCode::kInvalidArgument)
        << report.ShortDebugString();
  }
  // A worker without a part has nothing to report.
  EXPECT_FALSE(merge.Add(Report(1, {{0, 2, 1, 1.0}}), {0, 0}).ok());
  EXPECT_EQ(merge.num_open(), 0u);
}

TEST(EvaluationMergeTest, RefusesAnyReportWithoutATestSet) {
  EvaluationMerge merge({0, 2, 1}, 10);
  EXPECT_EQ(merge.Add(Report(1, {}, 0), kOnly).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EvaluationMergeTest, EveryTermOfASampleCounts) {
  EvaluationMerge merge({3, 2, 4}, 10);
  EXPECT_EQ(merge.Add(Report(1, {{0, 2, 9, 1.0}}, 2), kOnly).status().message(),
            "evaluation at step 1: found 9 correct in 2 samples of chunk 0, expected 2 samples and "
            "at most 8 correct");
  const auto evaluation = merge.Add(Report(1, {{0, 2, 8, 20.0}, {1, 1, 1, 4.0}}, 2), kOnly);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  ASSERT_TRUE(evaluation->has_value());
  EXPECT_EQ((*evaluation)->samples(), 3u);
  EXPECT_EQ((*evaluation)->loss(), 2.0);
  EXPECT_EQ((*evaluation)->accuracy(), 0.75);
}

TEST(EvaluationMergeTest, BoundsIncompleteEvaluations) {
  EvaluationMerge merge({5, 2, 1}, 1000);
  for (uint64_t step = 1; step <= EvaluationMerge::kMaxOpen; ++step) {
    ASSERT_TRUE(merge.Add(Report(step, {{0, 2, 1, 1.0}}), kFirst).ok());
  }
  EXPECT_EQ(merge.Add(Report(900, {{0, 2, 1, 1.0}}), kFirst).status().code(),
            absl::StatusCode::kResourceExhausted);
  // More of one that is open already is no problem.
  EXPECT_TRUE(merge.Add(Report(1, {{2, 1, 1, 1.0}}), kFirst).ok());
}

}  // namespace
}  // namespace sangam
