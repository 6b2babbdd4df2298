#include "server/runtime/shard_table.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/runtime/parameter_shard.h"
#include "tests/server/core/naive_merge.h"
#include "tests/server/runtime/shard_fixture.h"

namespace sangam {
namespace {

constexpr uint64_t kFull = 29 * 3 * 4;  // SmallJob on one server, with momentum
constexpr uint64_t kHeld = 29 * 4;

v1::Assignment InPhase(v1::Assignment assignment, v1::Assignment::Phase phase) {
  assignment.set_phase(phase);
  return assignment;
}

absl::Status PushAll(ParameterShard* shard, const v1::Plan& plan, uint64_t step) {
  for (const PageName& page : SmallJobPages()) {
    const absl::Status status =
        shard->AddGradient(GradientHeader(plan, page, step, {0, plan.shares()}, 1),
                           OnePiece(std::vector<float>(page.element_count, 1)));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

TEST(ShardTableTest, PreparesANewJobAndReportsItOnce) {
  ShardTable table("a");
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  const std::vector<v1::ReportRequest> reports = table.Reconcile({job});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].job(), 5u);
  EXPECT_EQ(reports[0].generation(), 1u);
  EXPECT_FALSE(reports[0].has_daemon());
  ASSERT_EQ(reports[0].report_size(), 1);
  EXPECT_EQ(reports[0].report(0).ready().memory_bytes(), kFull);
  EXPECT_EQ(table.MemoryBytes(), kFull);
  EXPECT_TRUE(table.Reconcile({job}).empty());
  EXPECT_EQ(table.MemoryBytes(), kFull);
}

TEST(ShardTableTest, RunLetsUpdatesBegin) {
  ShardTable table("a");
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  table.Reconcile({job});
  const std::shared_ptr<ParameterShard> shard = *table.Find(5);
  ASSERT_TRUE(PushAll(shard.get(), job.plan(), 0).ok());
  EXPECT_EQ(shard->ReadWeights()[0].header.step(), 0u);
  EXPECT_TRUE(table.Reconcile({InPhase(job, v1::Assignment::RUN)}).empty());
  EXPECT_EQ(*table.Find(5), shard);
  EXPECT_EQ(shard->ReadWeights()[0].header.step(), 1u);
  ASSERT_TRUE(PushAll(shard.get(), job.plan(), 1).ok());
  EXPECT_EQ(shard->ReadWeights()[0].header.step(), 2u);
}

// Updates may be made as soon as the job runs; by then the pages must know what is wanted of them.
TEST(ShardTableTest, ASnapshotIsTakenOfAStepThatEndsWhileTheJobBeginsToRun) {
  std::vector<v1::ReportRequest> reports;
  ShardTableOptions options;
  options.report = [&reports](v1::ReportRequest report) { reports.push_back(std::move(report)); };
  ShardTable table("a", options);
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  table.Reconcile({job});
  const std::shared_ptr<ParameterShard> shard = *table.Find(5);
  // Answers the weights of step 1 at once with the next gradient.
  const auto sink = std::make_shared<RecordingSink>([&](const PageWeights& weights) {
    if (weights.header.step() != 1) return;
    const PageName page = {weights.header.segment(), weights.header.first_element(),
                           weights.header.element_count()};
    EXPECT_TRUE(shard
                    ->AddGradient(GradientHeader(job.plan(), page, 1, {0, 2}, 1),
                                  OnePiece(std::vector<float>(page.element_count, 1)))
                    .ok());
  });
  ASSERT_TRUE(shard->Subscribe(SubscribeHeader(job.plan(), 0, 0, 25, 1), sink).ok());
  ASSERT_TRUE(shard->Subscribe(SubscribeHeader(job.plan(), 1, 0, 4, 1), sink).ok());
  ASSERT_TRUE(PushAll(shard.get(), job.plan(), 0).ok());
  v1::Assignment run = InPhase(job, v1::Assignment::RUN);
  run.add_snapshot_step(1);
  EXPECT_TRUE(table.Reconcile({run}).empty());
  EXPECT_EQ(shard->ReadWeights()[0].header.step(), 2u);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].report(0).snapshot().step(), 1u);
  EXPECT_EQ(shard->ReadState(1)->size(), 4u);
}

// A table whose checkpoints come when the test says so.
class ReadingTest : public ::testing::Test {
 protected:
  ReadingTest() {
    options_.memory_limit = 2 * kFull;
    options_.report = [this](v1::ReportRequest report) {
      MutexLock lock(&mutex_);
      reports_.push_back(std::move(report));
      changed_.SignalAll();
    };
    options_.read_checkpoint = [this](const v1::Assignment& assignment, const TakeStatePage& take) {
      {
        MutexLock lock(&mutex_);
        while (!may_read_) changed_.WaitFor(&mutex_, absl::Seconds(10));
      }
      for (const PageName& page : SmallJobPages()) {
        v1::FrameHeader header;
        header.set_segment(page.segment);
        header.set_first_element(page.first_element);
        header.set_step(assignment.first_step());
        header.set_kind(v1::FRAME_KIND_STATE);
        const absl::Status status = take(header, std::string(page.element_count * 8, '\0'));
        if (!status.ok()) return status;
        MutexLock lock(&mutex_);
        ++pages_taken_;
      }
      return absl::OkStatus();
    };
  }

  bool Eventually(const std::function<bool()>& condition,
                  absl::Duration patience = absl::Seconds(20)) {
    const absl::Duration deadline = Clock::Real().Steady() + patience;
    CondVar never;
    while (!condition()) {
      if (Clock::Real().Steady() >= deadline) return false;
      MutexLock lock(&mutex_);
      never.WaitFor(&mutex_, absl::Milliseconds(5));
    }
    return true;
  }
  int pages_taken() {
    MutexLock lock(&mutex_);
    return pages_taken_;
  }
  static v1::Assignment Resuming(uint64_t job) {
    v1::Assignment assignment = SmallJob(job, 2, {"a"});
    assignment.set_first_step(3);
    assignment.set_first_updates(3);
    return assignment;
  }
  void LetRead() {
    MutexLock lock(&mutex_);
    may_read_ = true;
    changed_.SignalAll();
  }
  std::vector<v1::ReportRequest> AwaitReports(size_t count) {
    MutexLock lock(&mutex_);
    for (int i = 0; i < 200 && reports_.size() < count; ++i) {
      changed_.WaitFor(&mutex_, absl::Milliseconds(100));
    }
    return reports_;
  }

  ShardTableOptions options_;
  Mutex mutex_;
  CondVar changed_;
  bool may_read_ ABSL_GUARDED_BY(mutex_) = false;
  int pages_taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<v1::ReportRequest> reports_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(ReadingTest, WhileACheckpointIsReadOtherJobsAreServed) {
  ShardTable table("a", options_);
  EXPECT_TRUE(table.Reconcile({Resuming(5)}).empty());
  // Its memory is taken.
  EXPECT_EQ(table.MemoryBytes(), kFull);
  const v1::Assignment other = SmallJob(6, 2, {"a"});
  ASSERT_EQ(table.Reconcile({Resuming(5), other}).size(), 1u);
  EXPECT_TRUE(table.Find(6).ok());
  EXPECT_FALSE(table.Find(5).ok());
  EXPECT_TRUE(AwaitReports(0).empty());
  LetRead();
  const auto reports = AwaitReports(1);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].job(), 5u);
  EXPECT_EQ(reports[0].report(0).ready().memory_bytes(), kFull);
  ASSERT_TRUE(table.Find(5).ok());
  EXPECT_EQ((*table.Find(5))->ReadWeights()[0].header.step(), 3u);
}

TEST_F(ReadingTest, WhatIsReadForNobodyEndsAndCountsUntilThen) {
  {
    ShardTable table("a", options_);
    EXPECT_TRUE(table.Reconcile({Resuming(5)}).empty());
    EXPECT_TRUE(table.Reconcile({}).empty());
    EXPECT_EQ(table.MemoryBytes(), kFull);
    LetRead();
    EXPECT_TRUE(Eventually([&table] { return table.MemoryBytes() == 0; }));
    EXPECT_EQ(pages_taken(), 0);
    EXPECT_FALSE(table.Find(5).ok());
  }
  EXPECT_TRUE(AwaitReports(0).empty());
}

TEST_F(ReadingTest, TheSameGenerationMayComeBackMeanwhile) {
  ShardTable table("a", options_);
  EXPECT_TRUE(table.Reconcile({Resuming(5)}).empty());
  EXPECT_TRUE(table.Reconcile({}).empty());
  EXPECT_TRUE(table.Reconcile({Resuming(5)}).empty());
  EXPECT_EQ(table.MemoryBytes(), 2 * kFull);
  LetRead();
  const auto reports = AwaitReports(1);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].report(0).has_ready());
  EXPECT_TRUE(Eventually([&table] { return table.MemoryBytes() == kFull; }));
}

TEST_F(ReadingTest, ALaterGenerationWaitsForTheMemoryOfTheOneBefore) {
  options_.memory_limit = kFull;
  ShardTable table("a", options_);
  EXPECT_TRUE(table.Reconcile({Resuming(5)}).empty());
  v1::Assignment later = Resuming(5);
  later.mutable_plan()->set_generation(later.plan().generation() + 1);
  std::thread page([this] {
    EXPECT_FALSE(Eventually([] { return false; }, absl::Milliseconds(200)));
    LetRead();
  });
  EXPECT_TRUE(table.Reconcile({later}).empty());
  page.join();
  const auto reports = AwaitReports(1);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].generation(), later.plan().generation());
  EXPECT_TRUE(reports[0].report(0).has_ready());
  EXPECT_EQ(table.MemoryBytes(), kFull);
}

TEST(ShardTableTest, AJobThatIsOnlyHeldMakesRoomForAnOlderOne) {
  ShardTableOptions options;
  options.memory_limit = kFull + kHeld;
  ShardTable table("a", options);
  const v1::Assignment younger = SmallJob(6, 2, {"a"});
  table.Reconcile({younger});
  const auto reports =
      table.Reconcile({SmallJob(5, 2, {"a"}), InPhase(younger, v1::Assignment::HOLD)});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].report(0).has_ready()) << reports[0].report(0).failed().message();
  EXPECT_EQ(table.MemoryBytes(), kFull + kHeld);
}

TEST(ShardTableTest, HoldKeepsOnlyTheLastWeights) {
  ShardTable table("a");
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  table.Reconcile({job});
  table.Reconcile({InPhase(job, v1::Assignment::RUN)});
  ASSERT_TRUE(PushAll(table.Find(5)->get(), job.plan(), 0).ok());
  const v1::Assignment hold = InPhase(job, v1::Assignment::HOLD);
  EXPECT_TRUE(table.Reconcile({hold}).empty());
  EXPECT_TRUE(table.Reconcile({hold}).empty());
  EXPECT_EQ(table.MemoryBytes(), kHeld);
  const std::vector<PageWeights> weights = (*table.Find(5))->ReadWeights();
  ASSERT_EQ(weights.size(), 4u);
  EXPECT_EQ(weights[0].header.step(), 1u);
  EXPECT_EQ(PushAll(table.Find(5)->get(), job.plan(), 1).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ShardTableTest, DropsWhatIsNoLongerAssigned) {
  ShardTable table("a");
  const v1::Assignment first = SmallJob(5, 2, {"a"});
  const v1::Assignment second = SmallJob(6, 2, {"a"});
  EXPECT_EQ(table.Reconcile({first, second}).size(), 2u);
  EXPECT_EQ(table.MemoryBytes(), 2 * kFull);
  const std::shared_ptr<ParameterShard> stream = *table.Find(5);
  EXPECT_TRUE(table.Reconcile({second}).empty());
  EXPECT_EQ(table.MemoryBytes(), kFull);
  EXPECT_EQ(table.Find(5).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(table.Find(6).ok());
  // A stream that still holds the shard is refused, and may read memory that is still there.
  EXPECT_EQ(PushAll(stream.get(), first.plan(), 0).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(stream->ReadWeights().size(), 4u);
  table.Reconcile({});
  EXPECT_EQ(table.MemoryBytes(), 0u);
}

TEST(ShardTableTest, AJobMayComeBackAfterItWasDropped) {
  ShardTable table("a");
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  table.Reconcile({job});
  table.Reconcile({InPhase(job, v1::Assignment::RUN)});
  ASSERT_TRUE(PushAll(table.Find(5)->get(), job.plan(), 0).ok());
  table.Reconcile({});
  EXPECT_EQ(table.Reconcile({job}).size(), 1u);
  EXPECT_EQ((*table.Find(5))->ReadWeights()[0].header.step(), 0u);
}

TEST(ShardTableTest, FindNamesTheJobThatIsMissing) {
  ShardTable table("a");
  const absl::Status status = table.Find(77).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("job 77"), std::string::npos);
}

TEST(ShardTableTest, AServerWithoutPagesIsReady) {
  ShardTable table("e");
  const std::vector<v1::ReportRequest> reports =
      table.Reconcile({SmallJob(5, 2, {"a", "b", "c", "d", "e"})});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].report(0).has_ready());
  EXPECT_TRUE((*table.Find(5))->ReadWeights().empty());
}

v1::FailedReport Failure(const std::vector<v1::ReportRequest>& reports) {
  if (reports.size() != 1 || reports[0].report_size() != 1) return {};
  return reports[0].report(0).failed();
}

TEST(ShardTableTest, ReportsAPlanThatItCannotFollowOnce) {
  ShardTable table("z");
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  const v1::FailedReport failed = Failure(table.Reconcile({job}));
  EXPECT_EQ(failed.code(), static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_NE(failed.message().find("'z'"), std::string::npos) << failed.message();
  EXPECT_TRUE(table.Reconcile({job}).empty());
  EXPECT_EQ(table.Find(5).status().code(), absl::StatusCode::kNotFound);
}

TEST(ShardTableTest, RefusesAJobThatWantsMoreMemoryThanTheLimit) {
  ShardTableOptions options;
  options.memory_limit = kFull + kFull / 2;
  ShardTable table("a", options);
  EXPECT_TRUE(table.Reconcile({SmallJob(5, 2, {"a"})})[0].report(0).has_ready());
  const v1::FailedReport failed =
      Failure(table.Reconcile({SmallJob(5, 2, {"a"}), SmallJob(6, 2, {"a"})}));
  EXPECT_EQ(failed.code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  for (const std::string part : {"job 6", "needs 348", "348 are in use", "limit is 522"}) {
    EXPECT_NE(failed.message().find(part), std::string::npos) << failed.message();
  }
  EXPECT_EQ(table.MemoryBytes(), kFull);
  // A job in HOLD leaves room for the next one; one that is dropped as well, in the same call.
  const v1::Assignment hold = InPhase(SmallJob(5, 2, {"a"}), v1::Assignment::HOLD);
  table.Reconcile({hold});
  EXPECT_TRUE(table.Reconcile({hold, SmallJob(7, 2, {"a"})})[0].report(0).has_ready());
  EXPECT_TRUE(table.Reconcile({SmallJob(8, 2, {"a"})})[0].report(0).has_ready());
}

TEST(ShardTableTest, LimitIsInclusive) {
  ShardTableOptions options;
  options.memory_limit = kFull;
  ShardTable table("a", options);
  EXPECT_TRUE(table.Reconcile({SmallJob(5, 2, {"a"})})[0].report(0).has_ready());
}

TEST(ShardTableTest, WeightsOfALostProcessAreNotMadeUp) {
  ShardTable table("a");
  const v1::FailedReport failed =
      Failure(table.Reconcile({InPhase(SmallJob(5, 2, {"a"}), v1::Assignment::RUN)}));
  EXPECT_EQ(failed.code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_NE(failed.message().find("RUN"), std::string::npos);
  EXPECT_TRUE(table.Reconcile({InPhase(SmallJob(6, 2, {"a"}), v1::Assignment::HOLD)}).empty());
  EXPECT_EQ(table.Find(6).status().code(), absl::StatusCode::kNotFound);
}

TEST(ShardTableTest, ALaterGenerationBeginsAnewAndMayMovePages) {
  ShardTable table("a");
  const v1::Assignment job = SmallJob(5, 2, {"a", "b"});
  table.Reconcile({job});
  table.Reconcile({InPhase(job, v1::Assignment::RUN)});
  const std::shared_ptr<ParameterShard> shard = *table.Find(5);
  v1::Assignment later = SmallJob(5, 2, {"a"});
  later.mutable_plan()->set_generation(2);
  const std::vector<v1::ReportRequest> reports = table.Reconcile({later});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].generation(), 2u);
  EXPECT_TRUE(reports[0].report(0).has_ready());
  const std::shared_ptr<ParameterShard> again = *table.Find(5);
  EXPECT_NE(again, shard);
  EXPECT_EQ(table.MemoryBytes(), kFull);
  // Whoever still has the old one is told.
  EXPECT_EQ(PushAll(shard.get(), job.plan(), 0).code(), absl::StatusCode::kNotFound);
  table.Reconcile({InPhase(later, v1::Assignment::RUN)});
  EXPECT_TRUE(PushAll(again.get(), later.plan(), 0).ok());
  // The older one, should it come again, is superseded.
  EXPECT_TRUE(table.Reconcile({job}).empty());
  EXPECT_TRUE(PushAll(again.get(), later.plan(), 1).ok());
}

TEST(ShardTableTest, ALaterGenerationThatWasNotPreparedFails) {
  ShardTable table("a");
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  table.Reconcile({job});
  v1::Assignment later = InPhase(job, v1::Assignment::RUN);
  later.mutable_plan()->set_generation(2);
  EXPECT_EQ(Failure(table.Reconcile({later})).code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(table.Find(5).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(table.MemoryBytes(), 0u);
}

TEST(ShardTableTest, AnEndedJobDoesNotGoOn) {
  ShardTable table("a");
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  table.Reconcile({job});
  table.Reconcile({InPhase(job, v1::Assignment::HOLD)});
  v1::Assignment later = job;
  later.mutable_plan()->set_generation(2);
  EXPECT_EQ(Failure(table.Reconcile({later})).code(),
            static_cast<int>(absl::StatusCode::kFailedPrecondition));
}

TEST(ShardTableTest, MayBeAskedByOthersDuringReconcile) {
  SetLogLevel(LogLevel::kError);  // else a line for each round
  ShardTable table("a");
  // Relaxed, so that nothing but the table orders the threads.
  constexpr auto kRelaxed = std::memory_order_relaxed;
  std::atomic<int> found{0};
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done.load(kRelaxed)) {
      const absl::StatusOr<std::shared_ptr<ParameterShard>> shard = table.Find(5);
      if (!shard.ok()) continue;
      EXPECT_LE(table.MemoryBytes(), kFull);
      EXPECT_EQ((*shard)->ReadWeights().size(), 4u);
      found.fetch_add(1, kRelaxed);
    }
  });
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (found.load(kRelaxed) < 300 && absl::Now() < deadline) {
    table.Reconcile({job});
    table.Reconcile({InPhase(job, v1::Assignment::HOLD)});
    table.Reconcile({});
  }
  done.store(true, kRelaxed);
  reader.join();
  EXPECT_GE(found.load(), 300);
  SetLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace sangam
