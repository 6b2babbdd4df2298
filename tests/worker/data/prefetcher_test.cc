#include "worker/data/prefetcher.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/data/batch_id.h"
#include "common/data/batch_reader.h"
#include "common/data/job_data.h"
#include "common/plan/batch_cut.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/testing/counting_data.h"
#include "worker/data/batch_source.h"

namespace sangam {
namespace {

using testing::CountingDataset;

constexpr absl::Duration kLong = absl::Seconds(60);

// 103 samples in file order, in batches of 10 that are cut into four micro-batches of 2, 3, 2, 3;
// the eleventh step has three samples: 0, 1, 1, 1.
class PrefetcherTest : public ::testing::Test {
 protected:
  PrefetcherTest() {
    spec_.mutable_data()->set_no_shuffle(true);
    cut_.batch_size = 10;
    cut_.micro_batches = 4;
    cut_.training_samples = 103;
    auto train = std::make_unique<CountingDataset>(103);
    dataset_ = train.get();
    data_.train = std::move(train);
    data_.test = std::make_unique<CountingDataset>(7);
    options_.max_rows = 3;
    options_.input_elements = 2;
    options_.labels_per_sample = 2;
  }

  // Lane l gets micro-batch l of `steps` steps from `first_step` on.
  static BatchSequence Steps(uint64_t first_step, uint64_t steps) {
    auto next = std::make_shared<std::vector<uint64_t>>(16, first_step);
    return [next, end = first_step + steps](size_t lane) -> std::optional<BatchId> {
      const uint64_t step = (*next)[lane]++;
      if (step >= end) return std::nullopt;
      return BatchId{false, step, static_cast<uint32_t>(lane)};
    };
  }

  std::unique_ptr<Prefetcher> Start(size_t lanes, BatchSequence sequence) {
    options_.lanes = lanes;
    auto prefetcher =
        Prefetcher::Start(options_, BatchReader(spec_, cut_, &data_), std::move(sequence));
    EXPECT_TRUE(prefetcher.ok()) << prefetcher.status();
    return *std::move(prefetcher);
  }

  v1::JobSpec spec_;
  BatchCut cut_;
  CountingDataset* dataset_ = nullptr;
  JobData data_;
  BatchOptions options_;
};

TEST_F(PrefetcherTest, DeliversEachLanesBatchesInOrder) {
  auto prefetcher = Start(3, Steps(0, 11));
  for (uint64_t step = 0; step < 11; ++step) {
    // Lanes in another order each time.
    for (size_t i = 0; i < 3; ++i) {
      const size_t lane = (i + step) % 3;
      const auto batch = prefetcher->Take(lane, kLong);
      ASSERT_TRUE(batch.ok()) << batch.status();
      EXPECT_EQ(batch->id, (BatchId{false, step, static_cast<uint32_t>(lane)}));
      const IndexRange part = cut_.MicroBatch(step, static_cast<uint32_t>(lane));
      ASSERT_EQ(batch->rows, part.size());
      for (uint64_t r = 0; r < batch->rows; ++r) {
        const uint64_t sample = 10 * step + part.begin + r;
        EXPECT_EQ(batch->inputs[2 * r], static_cast<float>(sample));
        EXPECT_EQ(batch->inputs[2 * r + 1], static_cast<float>(sample) + 0.5f);
        EXPECT_EQ(batch->labels[2 * r], sample % 7);
        EXPECT_EQ(batch->labels[2 * r + 1], sample % 5);
      }
    }
  }
  EXPECT_EQ(prefetcher->Take(0, kLong).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(PrefetcherTest, DeliversBatchesWithoutSamples) {
  auto prefetcher = Start(1, Steps(9, 3));
  for (const uint64_t rows : {2, 0, 2}) {
    const auto batch = prefetcher->Take(0, kLong);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->rows, rows);
  }
}

TEST_F(PrefetcherTest, DeliversTheTestSet) {
  uint32_t next = 0;
  auto prefetcher = Start(1, [&next](size_t) -> std::optional<BatchId> {
    return BatchId{true, 40, next++};
  });
  for (const uint64_t rows : {3, 3, 1}) {
    const auto batch = prefetcher->Take(0, kLong);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_TRUE(batch->id.evaluation);
    EXPECT_EQ(batch->id.step, 40);
    EXPECT_EQ(batch->rows, rows);
    EXPECT_EQ(batch->inputs[0], 3.0f * batch->id.index);
  }
  EXPECT_EQ(prefetcher->Take(0, kLong).status().message(),
            "chunk 3 of the test set: expected less than 3");
}

TEST_F(PrefetcherTest, PreparesOnlyWhatIsWanted) {
  options_.labels_per_sample = 0;
  {
    auto prefetcher = Start(1, Steps(0, 1));
    const auto batch = prefetcher->Take(0, kLong);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->labels, nullptr);
    EXPECT_EQ(batch->rows, 2);
  }
  options_.input_elements = 0;
  dataset_->FailAt(0);
  auto prefetcher = Start(1, Steps(0, 1));
  const auto batch = prefetcher->Take(0, kLong);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->inputs, nullptr);
  EXPECT_EQ(batch->rows, 2);
}

TEST_F(PrefetcherTest, ABatchStaysUnchangedWhileItIsHeld) {
  auto prefetcher = Start(1, Steps(0, 6));
  Batch held = prefetcher->Take(0, kLong).value();
  const float* memory = held.inputs;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(held.inputs[0], 0.0f);
  held = prefetcher->Take(0, kLong).value();
  EXPECT_NE(held.inputs, memory);
  EXPECT_EQ(held.inputs[0], 10.0f);
}

TEST_F(PrefetcherTest, UsesAFixedNumberOfBuffersAgainAndAgain) {
  auto prefetcher = Start(1, Steps(0, 10));
  std::vector<const float*> seen;
  for (int i = 0; i < 10; ++i) {
    const Batch batch = prefetcher->Take(0, kLong).value();
    if (std::find(seen.begin(), seen.end(), batch.inputs) == seen.end()) {
      seen.push_back(batch.inputs);
    }
  }
  EXPECT_LE(seen.size(), 3);  // 2 ahead and one on loan
  options_.lanes = 2;
  EXPECT_EQ(BatchMemoryBytes(options_), 2 * 3 * 3 * (2 * 4 + 2 * 4));
}

TEST_F(PrefetcherTest, ALaneThatDoesNotTakeDoesNotHoldUpTheOthers) {
  auto prefetcher = Start(2, Steps(0, 10));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(prefetcher->Take(1, kLong).ok());
  // Lane 0 was prepared ahead by no more than its buffers.
  EXPECT_LE(dataset_->reads(), 10 * 3 + 3 * 2);
}

TEST_F(PrefetcherTest, AnErrorComesInItsPlaceAndStays) {
  dataset_->FailAt(11);
  auto prefetcher = Start(2, Steps(0, 3));
  EXPECT_TRUE(prefetcher->Take(0, kLong).ok());
  EXPECT_EQ(prefetcher->Take(0, kLong).status(), absl::DataLossError("sample is gone"));
  EXPECT_EQ(prefetcher->Take(0, kLong).status(), absl::DataLossError("sample is gone"));
  // Another lane goes on.
  EXPECT_TRUE(prefetcher->Take(1, kLong).ok());
  EXPECT_TRUE(prefetcher->Take(1, kLong).ok());
}

TEST_F(PrefetcherTest, OptionsMustFitTheData) {
  const BatchReader reader(spec_, cut_, &data_);
  const auto refused = [&](const BatchOptions& options) {
    return Prefetcher::Start(options, reader, Steps(0, 1)).status();
  };
  BatchOptions options = options_;
  options.max_rows = 2;
  EXPECT_EQ(refused(options).message(), "max_rows: found 2, expected at least 3");
  options = options_;
  options.input_elements = 3;
  EXPECT_EQ(refused(options).message(), "input_elements: found 3, expected 0 or 2");
  options = options_;
  options.labels_per_sample = 1;
  EXPECT_EQ(refused(options).message(), "labels_per_sample: found 1, expected 0 or 2");
}

TEST_F(PrefetcherTest, WaitingHasADeadline) {
  dataset_->HoldUp(true);
  auto prefetcher = Start(1, Steps(0, 1));
  EXPECT_EQ(prefetcher->Take(0, absl::Milliseconds(5)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  dataset_->HoldUp(false);
  EXPECT_TRUE(prefetcher->Take(0, kLong).ok());
}

TEST_F(PrefetcherTest, StopWakesThoseWhoWait) {
  dataset_->HoldUp(true);
  auto prefetcher = Start(1, Steps(0, 1));
  absl::Status found;
  std::thread waiting([&] { found = prefetcher->Take(0, kLong).status(); });
  prefetcher->Stop();
  waiting.join();
  EXPECT_EQ(found.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(prefetcher->Take(0, kLong).status().code(), absl::StatusCode::kCancelled);
  dataset_->HoldUp(false);
}

TEST_F(PrefetcherTest, EndsWhileNobodyTakes) {
  auto prefetcher = Start(2, Steps(0, 10));
  EXPECT_TRUE(prefetcher->Take(0, kLong).ok());
  prefetcher.reset();
  EXPECT_LT(dataset_->reads(), 20);
}

}  // namespace
}  // namespace sangam
