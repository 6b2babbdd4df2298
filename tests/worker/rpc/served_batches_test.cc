#include "worker/rpc/served_batches.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/data/batch_id.h"
#include "common/data/batch_reader.h"
#include "common/data/job_data.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "server/rpc/data_service.h"
#include "server/runtime/served_data.h"
#include "tests/testing/cutting_proxy.h"
#include "tests/testing/data_server.h"
#include "tests/testing/feed_job.h"
#include "worker/data/batch_source.h"
#include "worker/data/prefetcher.h"

namespace sangam {
namespace {

using testing::DataServer;
using testing::FeedJob;
using ::testing::HasSubstr;
using testing::ServedJobs;

constexpr absl::Duration kLong = absl::Seconds(60);
// Every step of two epochs, and three evaluations.
constexpr uint64_t kSteps = 22;

// Lane l of `lanes` gets every lanes-th micro-batch of each step, and after some steps every
// lanes-th chunk of the test set.
BatchSequence Everything(size_t lanes, uint32_t micro_batches) {
  auto all = std::make_shared<std::vector<std::vector<BatchId>>>(lanes);
  for (uint64_t step = 0; step < kSteps; ++step) {
    for (uint32_t m = 0; m < micro_batches; ++m) (*all)[m % lanes].push_back({false, step, m});
    if (step % 7 != 6) continue;
    for (uint32_t c = 0; c < 3; ++c) (*all)[c % lanes].push_back({true, step + 1, c});
  }
  auto next = std::make_shared<std::vector<size_t>>(lanes, 0);
  return [all, next](size_t lane) -> std::optional<BatchId> {
    const size_t turn = (*next)[lane]++;
    if (turn >= (*all)[lane].size()) return std::nullopt;
    return (*all)[lane][turn];
  };
}

class ServedBatchesTest : public ::testing::Test {
 protected:
  ServedBatchesTest() : data_(testing::MakeFeedData(job_)) {
    server_options_.check_interval = absl::Milliseconds(20);
    server_options_.piece_elements = 3;  // many pieces, which end within a sample
    batches_.lanes = 2;
    batches_.max_rows = 3;
    options_.backoff.initial = absl::Milliseconds(5);
  }

  void Serve(uint32_t ranks) {
    job_.ranks = ranks;
    jobs_.Set(testing::MakeServedJob(job_, data_));
    server_ = std::make_unique<DataServer>(server_options_, jobs_.finder());
    options_.coordinator = server_->address();
  }
  v1::Plan Plan() const { return testing::MakeFeedAssignment(job_)->plan(); }
  BatchOptions Wanted(bool inputs, bool labels) const {
    BatchOptions wanted = batches_;
    wanted.input_elements = inputs ? 2 : 0;
    wanted.labels_per_sample = labels ? 2 : 0;
    return wanted;
  }
  absl::StatusOr<std::unique_ptr<BatchSource>> Create(uint32_t worker, bool inputs, bool labels) {
    return ServedBatches::Create(options_, Plan(), worker, Wanted(inputs, labels),
                                 Everything(batches_.lanes, job_.micro_batches));
  }
  // The first thing that a lane is told.
  absl::Status FirstError() {
    auto source = Create(0, true, true);
    if (!source.ok()) return source.status();
    return (*source)->Take(0, kLong).status();
  }

  // Compares every batch with what a worker that reads by itself gets; returns how many there were.
  int ExpectSameAsLocal(uint32_t worker, bool inputs, bool labels) {
    auto served = Create(worker, inputs, labels);
    EXPECT_TRUE(served.ok()) << served.status();
    const auto local =
        Prefetcher::Start(Wanted(inputs, labels), testing::MakeFeedReader(job_, data_.get()),
                          Everything(batches_.lanes, job_.micro_batches));
    EXPECT_TRUE(local.ok()) << local.status();
    int count = 0;
    for (size_t lane = 0; lane < batches_.lanes;) {
      const auto ours = (*served)->Take(lane, kLong);
      const auto theirs = (*local)->Take(lane, kLong);
      EXPECT_EQ(ours.status().code(), theirs.status().code()) << ours.status();
      if (!ours.ok() || !theirs.ok()) {
        EXPECT_EQ(ours.status().code(), absl::StatusCode::kOutOfRange) << ours.status();
        ++lane;
        continue;
      }
      ++count;
      EXPECT_EQ(ours->id, theirs->id);
      EXPECT_EQ(ours->rows, theirs->rows);
      EXPECT_EQ(ours->inputs == nullptr, !inputs);
      EXPECT_EQ(ours->labels == nullptr, !labels);
      const uint64_t bytes = theirs->rows * 2 * 4;
      if (inputs) {
        EXPECT_EQ(std::memcmp(ours->inputs, theirs->inputs, bytes), 0);
      }
      if (labels) {
        EXPECT_EQ(std::memcmp(ours->labels, theirs->labels, bytes), 0);
      }
    }
    return count;
  }

  static constexpr int kBatches = static_cast<int>(kSteps) * 4 + 3 * 3;

  FeedJob job_;
  std::shared_ptr<const JobData> data_;
  ServedJobs jobs_;
  DataService::Options server_options_;
  std::unique_ptr<DataServer> server_;
  ServedBatches::Options options_;
  BatchOptions batches_;
};

TEST_F(ServedBatchesTest, EveryBatchIsAsIfItWereReadByTheWorker) {
  Serve(1);
  EXPECT_EQ(ExpectSameAsLocal(0, true, true), kBatches);
}

TEST_F(ServedBatchesTest, TheFirstWorkerGetsInputsAndTheLastOneLabels) {
  Serve(2);
  std::thread first([this] { EXPECT_EQ(ExpectSameAsLocal(0, true, false), kBatches); });
  EXPECT_EQ(ExpectSameAsLocal(1, false, true), kBatches);
  first.join();
}

TEST_F(ServedBatchesTest, ManyLanesShareTheCredits) {
  Serve(1);
  batches_.lanes = 4;
  batches_.ahead = 40;  // more buffers than the protocol allows requests
  EXPECT_EQ(ExpectSameAsLocal(0, true, true), kBatches);
}

TEST_F(ServedBatchesTest, AsksAgainForWhatALostConnectionHasNotBrought) {
  Serve(1);
  int cut = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    CuttingProxy proxy(server_->port(), seed, /*cuts=*/6, /*most_bytes=*/20000);
    options_.coordinator = proxy.address();
    EXPECT_EQ(ExpectSameAsLocal(0, true, true), kBatches);
    cut += proxy.num_cut();
  }
  EXPECT_GE(cut, 4);
}

TEST_F(ServedBatchesTest, WaitsForACoordinatorThatStartsAgain) {
  Serve(1);
  auto source = Create(0, true, true);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_TRUE((*source)->Take(0, kLong).ok());
  const int port = server_->port();
  server_.reset();
  server_ = std::make_unique<DataServer>(server_options_, jobs_.finder(), port);
  for (int i = 0; i < 30; ++i) {
    const auto batch = (*source)->Take(0, kLong);
    ASSERT_TRUE(batch.ok()) << batch.status();
  }
}

TEST_F(ServedBatchesTest, GivesUpOnACoordinatorThatStaysAway) {
  Serve(1);
  server_.reset();
  options_.connect_deadline = absl::Milliseconds(100);
  const absl::Status error = FirstError();
  EXPECT_EQ(error.code(), absl::StatusCode::kUnavailable) << error;
  EXPECT_THAT(std::string(error.message()), HasSubstr("data of the coordinator at 127.0.0.1:"));
  EXPECT_THAT(std::string(error.message()), HasSubstr("no working stream for"));
}

TEST_F(ServedBatchesTest, AnotherGenerationEndsIt) {
  Serve(1);
  ++job_.generation;
  const absl::Status older = FirstError();
  EXPECT_EQ(older.code(), absl::StatusCode::kAborted) << older;
  EXPECT_THAT(std::string(older.message()),
              HasSubstr("generation: found 3, the coordinator serves 2"));
  // Also in the middle of a run.
  jobs_.Set(testing::MakeServedJob(job_, data_));
  auto source = Create(0, true, true);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_TRUE((*source)->Take(1, kLong).ok());
  ++job_.generation;
  jobs_.Set(testing::MakeServedJob(job_, data_));
  absl::Status end;
  while (end.ok()) end = (*source)->Take(0, kLong).status();
  EXPECT_EQ(end.code(), absl::StatusCode::kAborted) << end;
  EXPECT_EQ((*source)->Take(0, kLong).status(), end);
}

TEST_F(ServedBatchesTest, AJobWithoutServedDataIsNotFound) {
  Serve(1);
  jobs_.Remove(job_.job);
  const absl::Status error = FirstError();
  EXPECT_EQ(error.code(), absl::StatusCode::kNotFound) << error;
}

TEST_F(ServedBatchesTest, OptionsMustFitThePlan) {
  Serve(3);
  EXPECT_THAT(std::string(Create(0, true, true).status().message()),
              HasSubstr("labels_per_sample: found 2 for a worker without the last block"));
  EXPECT_THAT(std::string(Create(0, false, false).status().message()),
              HasSubstr("input_elements: found 0 for a worker with the first block"));
  EXPECT_THAT(std::string(Create(1, false, false).status().message()),
              HasSubstr("neither the first nor the last block"));
  EXPECT_THAT(std::string(Create(3, true, false).status().message()),
              HasSubstr("worker: found 3, expected less than 3"));
}

TEST_F(ServedBatchesTest, SamplesThatDoNotFitTheBuffersAreAnError) {
  Serve(1);
  batches_.max_rows = 2;
  auto source = Create(0, true, true);
  ASSERT_TRUE(source.ok()) << source.status();
  absl::Status end;
  while (end.ok()) end = (*source)->Take(1, kLong).status();
  EXPECT_EQ(end.code(), absl::StatusCode::kInvalidArgument) << end;
  EXPECT_THAT(std::string(end.message()),
              HasSubstr("micro-batch 1 of step 0: rows: found 3, expected at most 2"));
}

TEST_F(ServedBatchesTest, StopWakesThoseWhoWaitAndLeavesBatchesReadable) {
  Serve(1);
  auto source = Create(0, true, true);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto held = (*source)->Take(0, kLong);
  ASSERT_TRUE(held.ok()) << held.status();
  const float value = held->inputs[0];
  server_.reset();
  absl::Status found;
  std::thread waiting([&] {
    while (found.ok()) found = (*source)->Take(1, kLong).status();
  });
  (*source)->Stop();
  waiting.join();
  EXPECT_EQ(found.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(held->inputs[0], value);
}

TEST_F(ServedBatchesTest, EndsWhileNobodyTakes) {
  Serve(1);
  const absl::Duration begin = Clock::Real().Steady();
  {
    auto source = Create(0, true, true);
    ASSERT_TRUE(source.ok()) << source.status();
  }
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(20));
}

}  // namespace
}  // namespace sangam
