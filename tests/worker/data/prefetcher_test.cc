#include "worker/data/prefetcher.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "worker/data/dataset.h"
#include "worker/data/sampler.h"

namespace sangam {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

// Sample i has the row {i, i + 0.5} and the label i mod 7. Can fail at one sample, and can be held
// up.
class CountingDataset : public Dataset {
 public:
  uint64_t num_samples() const override { return 1000; }
  const std::vector<uint64_t>& sample_shape() const override { return shape_; }
  uint64_t sample_elements() const override { return 2; }
  uint32_t num_classes() const override { return 7; }
  uint64_t memory_bytes() const override { return 0; }
  absl::Status Read(uint64_t sample, float* row, uint32_t* label) const override {
    ++reads_;
    {
      MutexLock lock(&mutex_);
      while (held_up_) changed_.WaitFor(&mutex_, absl::Seconds(1));
    }
    if (sample == fails_at_) return absl::DataLossError("sample is gone");
    row[0] = static_cast<float>(sample);
    row[1] = static_cast<float>(sample) + 0.5f;
    *label = static_cast<uint32_t>(sample % 7);
    return absl::OkStatus();
  }

  void HoldUp(bool held_up) {
    MutexLock lock(&mutex_);
    held_up_ = held_up;
    changed_.SignalAll();
  }
  void FailAt(uint64_t sample) { fails_at_ = sample; }
  int reads() const { return reads_; }

 private:
  const std::vector<uint64_t> shape_ = {2};
  uint64_t fails_at_ = UINT64_MAX;
  mutable std::atomic<int> reads_{0};
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool held_up_ ABSL_GUARDED_BY(mutex_) = false;
};

// Lane l gets runs of `count` samples beginning at 100 * l, `batches` of them.
Prefetcher::Source Runs(const Dataset* dataset, std::vector<uint64_t> counts) {
  auto next = std::make_shared<std::vector<size_t>>(16, 0);
  return [dataset, counts, next](size_t lane) -> std::optional<SampleRun> {
    const size_t turn = (*next)[lane]++;
    if (turn >= counts.size()) return std::nullopt;
    SampleRun run;
    run.dataset = dataset;
    run.order = Sampler::InOrder(dataset->num_samples());
    run.first = 100 * lane;
    for (size_t i = 0; i < turn; ++i) run.first += counts[i];
    run.count = counts[turn];
    run.tag = 1000 * lane + turn;
    return run;
  };
}

std::unique_ptr<Prefetcher> StartOrDie(size_t lanes, Prefetcher::Source source) {
  Prefetcher::Options options;
  options.lanes = lanes;
  options.max_rows = 4;
  options.row_elements = 2;
  auto prefetcher = Prefetcher::Start(options, std::move(source));
  EXPECT_TRUE(prefetcher.ok()) << prefetcher.status();
  return *std::move(prefetcher);
}

TEST(PrefetcherTest, DeliversEachLanesRunsInOrder) {
  CountingDataset dataset;
  const std::vector<uint64_t> counts = {4, 1, 3, 4, 2, 4, 4};
  auto prefetcher = StartOrDie(3, Runs(&dataset, counts));
  for (size_t turn = 0, first = 0; turn < counts.size(); first += counts[turn++]) {
    // Lanes in another order each time.
    for (size_t i = 0; i < 3; ++i) {
      const size_t lane = (i + turn) % 3;
      auto batch = prefetcher->Take(lane, kLong);
      ASSERT_TRUE(batch.ok()) << batch.status();
      EXPECT_EQ(batch->tag(), 1000 * lane + turn);
      ASSERT_EQ(batch->rows(), counts[turn]);
      for (uint64_t r = 0; r < batch->rows(); ++r) {
        const uint64_t sample = 100 * lane + first + r;
        EXPECT_EQ(batch->inputs()[2 * r], static_cast<float>(sample));
        EXPECT_EQ(batch->inputs()[2 * r + 1], static_cast<float>(sample) + 0.5f);
        EXPECT_EQ(batch->labels()[r], sample % 7);
      }
    }
  }
  EXPECT_EQ(prefetcher->Take(0, kLong).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(PrefetcherTest, DeliversBatchesWithoutSamples) {
  CountingDataset dataset;
  auto prefetcher = StartOrDie(1, Runs(&dataset, {0, 2, 0, 0, 1}));
  for (const uint64_t rows : {0, 2, 0, 0, 1}) {
    auto batch = prefetcher->Take(0, kLong);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->rows(), rows);
  }
}

TEST(PrefetcherTest, ABatchStaysUnchangedWhileItIsHeld) {
  CountingDataset dataset;
  auto prefetcher = StartOrDie(1, Runs(&dataset, {2, 2, 2, 2, 2, 2}));
  Prefetcher::Batch held = prefetcher->Take(0, kLong).value();
  const float* memory = held.inputs();
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(held.inputs()[0], 0.0f);
    if (i == 20) held = prefetcher->Take(0, kLong).value();
    if (i >= 20) break;
  }
  EXPECT_NE(held.inputs(), memory);
  EXPECT_EQ(held.inputs()[0], 2.0f);
}

TEST(PrefetcherTest, UsesAFixedNumberOfBuffersAgainAndAgain) {
  CountingDataset dataset;
  auto prefetcher = StartOrDie(1, Runs(&dataset, std::vector<uint64_t>(20, 1)));
  std::vector<const float*> seen;
  for (int i = 0; i < 20; ++i) {
    const Prefetcher::Batch batch = prefetcher->Take(0, kLong).value();
    if (std::find(seen.begin(), seen.end(), batch.inputs()) == seen.end()) {
      seen.push_back(batch.inputs());
    }
  }
  EXPECT_LE(seen.size(), 3);  // depth 2 and one on loan
  Prefetcher::Options options;
  options.lanes = 2;
  options.max_rows = 4;
  options.row_elements = 2;
  EXPECT_EQ(Prefetcher::MemoryBytes(options), 2 * 3 * 4 * (2 * 4 + 4));
}

TEST(PrefetcherTest, ALaneThatDoesNotTakeDoesNotHoldUpTheOthers) {
  CountingDataset dataset;
  auto prefetcher = StartOrDie(2, Runs(&dataset, std::vector<uint64_t>(50, 1)));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(prefetcher->Take(1, kLong).ok());
  // Lane 0 was prepared ahead by no more than its depth.
  EXPECT_LE(dataset.reads(), 52);
}

TEST(PrefetcherTest, AnErrorComesInItsPlaceAndStays) {
  CountingDataset dataset;
  dataset.FailAt(2);
  auto prefetcher = StartOrDie(2, Runs(&dataset, {2, 2, 2}));
  EXPECT_TRUE(prefetcher->Take(0, kLong).ok());
  EXPECT_EQ(prefetcher->Take(0, kLong).status(), absl::DataLossError("sample is gone"));
  EXPECT_EQ(prefetcher->Take(0, kLong).status(), absl::DataLossError("sample is gone"));
  // Another lane goes on.
  EXPECT_TRUE(prefetcher->Take(1, kLong).ok());
  EXPECT_TRUE(prefetcher->Take(1, kLong).ok());
}

TEST(PrefetcherTest, ARunThatDoesNotFitTheBuffersIsAnError) {
  CountingDataset dataset;
  auto prefetcher = StartOrDie(1, Runs(&dataset, {5}));
  EXPECT_EQ(prefetcher->Take(0, kLong).status().code(), absl::StatusCode::kInternal);
}

TEST(PrefetcherTest, WaitingHasADeadline) {
  CountingDataset dataset;
  dataset.HoldUp(true);
  auto prefetcher = StartOrDie(1, Runs(&dataset, {1}));
  EXPECT_EQ(prefetcher->Take(0, absl::Milliseconds(5)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  dataset.HoldUp(false);
  EXPECT_TRUE(prefetcher->Take(0, kLong).ok());
}

TEST(PrefetcherTest, StopWakesThoseWhoWait) {
  CountingDataset dataset;
  dataset.HoldUp(true);
  auto prefetcher = StartOrDie(1, Runs(&dataset, {1}));
  absl::Status found;
  std::thread waiting([&] { found = prefetcher->Take(0, kLong).status(); });
  prefetcher->Stop();
  waiting.join();
  EXPECT_EQ(found.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(prefetcher->Take(0, kLong).status().code(), absl::StatusCode::kCancelled);
  dataset.HoldUp(false);
}

TEST(PrefetcherTest, EndsWhileNobodyTakes) {
  CountingDataset dataset;
  auto prefetcher = StartOrDie(2, Runs(&dataset, std::vector<uint64_t>(50, 1)));
  EXPECT_TRUE(prefetcher->Take(0, kLong).ok());
  prefetcher.reset();
  EXPECT_LT(dataset.reads(), 10);
}

}  // namespace
}  // namespace sangam
