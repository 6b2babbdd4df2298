#include "common/plan/batch_cut.h"

#include <algorithm>
#include <cstdint>

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(EvenPartTest, PartsFollowOneAnotherAndDifferByAtMostOne) {
  for (uint64_t total = 0; total <= 40; ++total) {
    for (uint64_t parts = 1; parts <= 12; ++parts) {
      uint64_t next = 0;
      for (uint64_t part = 0; part < parts; ++part) {
        const IndexRange range = EvenPart(total, parts, part);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.size(), total / parts);
        EXPECT_LE(range.size(), (total + parts - 1) / parts);
        next = range.end;
      }
      EXPECT_EQ(next, total);
    }
  }
}

TEST(EvenPartTest, IsExactForTheLargestNumbers) {
  const uint64_t total = ~uint64_t{0};
  EXPECT_EQ(EvenPart(total, 3, 2).end, total);
  EXPECT_EQ(EvenPart(total, total, total - 1), (IndexRange{total - 1, total}));
}

TEST(BatchCutTest, EveryStepOfAnEpochTakesItsSamplesOnce) {
  const BatchCut cut{.batch_size = 32, .micro_batches = 8, .shares = 3, .training_samples = 70};
  EXPECT_EQ(cut.StepsPerEpoch(), 3u);
  EXPECT_EQ(cut.BatchSamples(0), (IndexRange{0, 32}));
  EXPECT_EQ(cut.BatchSamples(2), (IndexRange{64, 70}));
  EXPECT_EQ(cut.BatchSamples(3), (IndexRange{0, 32}));
  EXPECT_EQ(cut.EpochOf(2), 0u);
  EXPECT_EQ(cut.EpochOf(3), 1u);
}

TEST(BatchCutTest, RaggedBatchSpreadsOverAllMicroBatches) {
  const BatchCut cut{.batch_size = 32, .micro_batches = 8, .shares = 3, .training_samples = 70};
  uint64_t next = 0;
  uint64_t empty = 0;
  for (uint32_t m = 0; m < 8; ++m) {
    const IndexRange range = cut.MicroBatch(2, m);
    EXPECT_EQ(range.begin, next);
    EXPECT_LE(range.size(), 1u);
    if (range.size() == 0) ++empty;
    next = range.end;
  }
  EXPECT_EQ(next, 6u);
  EXPECT_EQ(empty, 2u);
}

TEST(BatchCutTest, SharesAreConsecutiveMicroBatches) {
  const BatchCut cut{.batch_size = 32, .micro_batches = 8, .shares = 3, .training_samples = 70};
  EXPECT_EQ(cut.ShareMicroBatches(0), (IndexRange{0, 2}));
  EXPECT_EQ(cut.ShareMicroBatches(1), (IndexRange{2, 5}));
  EXPECT_EQ(cut.ShareMicroBatches(2), (IndexRange{5, 8}));
}

TEST(BatchCutTest, MaxMicroBatchSizeBoundsThemAll) {
  for (uint64_t size = 1; size <= 40; ++size) {
    for (uint32_t m = 1; m <= size; ++m) {
      const BatchCut cut{
          .batch_size = size, .micro_batches = m, .shares = 1, .training_samples = 3 * size + 1};
      uint64_t most = 0;
      for (uint32_t i = 0; i < m; ++i) most = std::max(most, cut.MicroBatch(0, i).size());
      EXPECT_EQ(cut.MaxMicroBatchSize(), most);
    }
  }
}

TEST(EvaluationChunkTest, CoversTheTestSet) {
  EXPECT_EQ(NumEvaluationChunks(0, 32), 0u);
  EXPECT_EQ(NumEvaluationChunks(64, 32), 2u);
  EXPECT_EQ(NumEvaluationChunks(65, 32), 3u);
  EXPECT_EQ(EvaluationChunk(65, 32, 2), (IndexRange{64, 65}));
}

}  // namespace
}  // namespace sangam
