#include "server/runtime/served_data.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/data/batch_reader.h"
#include "common/data/data_root.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "tests/testing/feed_job.h"
#include "tests/testing/subprocess.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

struct Report {
  uint64_t job = 0;
  uint64_t generation = 0;
  absl::StatusOr<v1::ReadyReport> facts;
};

class ServedDataTest : public ::testing::Test {
 protected:
  ServedDataTest()
      : folder_(testing::FreshFolder(absl::StrCat(
            "served_data_", ::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    testing::WriteFile(absl::StrCat(folder_, "/train.txt"), "abcdefghijk");
    testing::WriteFile(absl::StrCat(folder_, "/test.txt"), "abcdefg");
    options_.root = DataRoot::Create(folder_).value();
  }

  // A job over the text files, samples of two positions.
  static std::shared_ptr<v1::Assignment> Job(uint64_t job, uint64_t generation) {
    testing::FeedJob feed;
    feed.job = job;
    feed.generation = generation;
    feed.batch = 2;
    feed.micro_batches = 2;
    auto assignment = std::make_shared<v1::Assignment>(*testing::MakeFeedAssignment(feed));
    v1::JobSpec& spec = *assignment->mutable_spec();
    spec.mutable_data()->set_served(true);
    spec.mutable_data()->mutable_text()->add_train("train.txt");
    spec.mutable_data()->mutable_text()->add_test("test.txt");
    spec.mutable_model()->add_input_shape(2);
    v1::ModelLayout& layout = *assignment->mutable_plan()->mutable_layout();
    layout.set_terms_per_sample(2);
    v1::BlockLayout& last = *layout.mutable_block(layout.block_size() - 1);
    last.add_output_shape(2);
    last.add_output_shape(200);
    return assignment;
  }

  void Start() {
    served_ = std::make_unique<ServedData>(
        options_,
        [this](uint64_t job, uint64_t generation, const absl::StatusOr<v1::ReadyReport>& facts) {
          MutexLock lock(&mutex_);
          reports_.push_back({job, generation, facts});
          changed_.SignalAll();
        });
  }
  void Reconcile(const std::vector<std::shared_ptr<v1::Assignment>>& jobs) {
    served_->Reconcile({jobs.begin(), jobs.end()});
  }
  // The next one; ends the test when it does not come in half a minute.
  Report NextReport() {
    const absl::Duration deadline = Clock::Real().Steady() + absl::Seconds(30);
    MutexLock lock(&mutex_);
    while (reports_.empty() && Clock::Real().Steady() < deadline) {
      changed_.WaitFor(&mutex_, absl::Milliseconds(100));
    }
    if (reports_.empty()) return {0, 0, absl::DeadlineExceededError("no report")};
    Report report = std::move(reports_.front());
    reports_.pop_front();
    return report;
  }
  bool quiet() {
    MutexLock lock(&mutex_);
    return reports_.empty();
  }

  const std::string folder_;
  ServedData::Options options_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Report> reports_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ServedData> served_;
};

TEST_F(ServedDataTest, OpensWhatIsWantedAndSaysWhatIsInIt) {
  Start();
  EXPECT_EQ(served_->Find(3).status().code(), absl::StatusCode::kNotFound);
  Reconcile({Job(3, 1)});
  const Report report = NextReport();
  EXPECT_EQ(report.job, 3);
  EXPECT_EQ(report.generation, 1);
  ASSERT_TRUE(report.facts.ok()) << report.facts.status();
  EXPECT_EQ(report.facts->train_samples(), 5);
  EXPECT_EQ(report.facts->test_samples(), 3);
  EXPECT_EQ(report.facts->classes(), 'k' + 1);
  const auto job = served_->Find(3);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->plan().generation(), 1);
  EXPECT_EQ((*job)->reader.max_rows(), 1);
  const auto rows = (*job)->reader.Find({/*evaluation=*/true, 0, 2});
  ASSERT_TRUE(rows.ok()) << rows.status();
  uint32_t labels[2] = {};
  ASSERT_TRUE(rows->Read(0, nullptr, labels).ok());
  EXPECT_EQ(labels[0], 'f');
}

TEST_F(ServedDataTest, ANewGenerationKeepsTheOpenData) {
  Start();
  Reconcile({Job(3, 1)});
  ASSERT_TRUE(NextReport().facts.ok());
  const auto before = served_->Find(3).value()->data;
  // Were it opened anew, it would not be found.
  testing::WriteFile(absl::StrCat(folder_, "/train.txt"), "");
  Reconcile({Job(3, 1)});
  Reconcile({Job(3, 2)});
  const Report report = NextReport();
  EXPECT_EQ(report.generation, 2);
  ASSERT_TRUE(report.facts.ok()) << report.facts.status();
  EXPECT_EQ(served_->Find(3).value()->data, before);
  EXPECT_EQ(served_->Find(3).value()->plan().generation(), 2);
  EXPECT_TRUE(quiet());
}

TEST_F(ServedDataTest, DropsWhatIsNotWanted) {
  Start();
  Reconcile({Job(3, 1), Job(4, 1)});
  EXPECT_EQ(NextReport().job, 3);
  EXPECT_EQ(NextReport().job, 4);
  const std::weak_ptr<const ServedJob> dropped = served_->Find(3).value();
  Reconcile({Job(4, 1)});
  EXPECT_EQ(served_->Find(3).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(served_->Find(4).ok());
  // The thread lets go of it, too.
  const absl::Duration deadline = Clock::Real().Steady() + absl::Seconds(30);
  while (!dropped.expired() && Clock::Real().Steady() < deadline) std::this_thread::yield();
  EXPECT_TRUE(dropped.expired());
}

TEST_F(ServedDataTest, WithoutAFolderItNamesTheFlag) {
  options_.root.reset();
  Start();
  Reconcile({Job(3, 1)});
  const Report report = NextReport();
  EXPECT_EQ(report.facts.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(report.facts.status().message()),
              HasSubstr("job 3: data.served: the coordinator has no folder to read data from; "
                        "start it with --data_root=DIR"));
  const auto found = served_->Find(3);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(found.status().message()), HasSubstr("--data_root"));
}

TEST_F(ServedDataTest, SaysWhatIsWrongWithTheDataOnce) {
  Start();
  auto broken = Job(3, 1);
  broken->mutable_spec()->mutable_data()->mutable_text()->set_train(0, "none.txt");
  Reconcile({broken});
  const Report report = NextReport();
  EXPECT_EQ(report.facts.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(report.facts.status().message()), HasSubstr("data.text.train[0]"));
  Reconcile({broken, Job(4, 1)});
  EXPECT_EQ(NextReport().job, 4);
  EXPECT_TRUE(quiet());
}

TEST_F(ServedDataTest, AllJobsShareTheMemory) {
  options_.memory_limit = 18 + 17;
  Start();
  Reconcile({Job(3, 1)});
  ASSERT_TRUE(NextReport().facts.ok());
  Reconcile({Job(3, 1), Job(4, 1)});
  EXPECT_EQ(NextReport().facts.status().code(), absl::StatusCode::kResourceExhausted);
  // Another generation of what is open needs nothing.
  Reconcile({Job(3, 2)});
  EXPECT_TRUE(NextReport().facts.ok());
  Reconcile({Job(4, 2)});
  EXPECT_TRUE(NextReport().facts.ok());
}

TEST_F(ServedDataTest, RefusesMicroBatchesThatAStreamMayNotHold) {
  // Two positions: two floats and two labels.
  options_.max_micro_batch_bytes = 16;
  Start();
  Reconcile({Job(3, 1)});
  EXPECT_TRUE(NextReport().facts.ok());
  auto uncut = Job(3, 2);
  uncut->mutable_plan()->set_micro_batches(1);
  uncut->mutable_plan()->set_shares(1);
  for (v1::WorkerPlan& worker : *uncut->mutable_plan()->mutable_worker()) {
    worker.mutable_shares()->set_begin(0);
    worker.mutable_shares()->set_end(0);
  }
  uncut->mutable_plan()->mutable_worker(0)->mutable_shares()->set_end(1);
  Reconcile({uncut});
  EXPECT_THAT(std::string(NextReport().facts.status().message()),
              HasSubstr("batch.micro_batches: found micro-batches of 2 samples of 16 bytes with "
                        "their labels, expected at most 16 bytes"));
}

TEST_F(ServedDataTest, RefusesPlansThatContradictThemselves) {
  Start();
  auto broken = Job(3, 1);
  broken->mutable_plan()->set_micro_batches(3);
  Reconcile({broken});
  EXPECT_THAT(std::string(NextReport().facts.status().message()),
              HasSubstr("plan.micro_batches: found 3, expected between 1 and batch.size, 2"));
  broken = Job(3, 2);
  broken->mutable_plan()->set_ranks(0);
  Reconcile({broken});
  EXPECT_THAT(std::string(NextReport().facts.status().message()), HasSubstr("plan.ranks"));
}

TEST_F(ServedDataTest, NothingIsReportedAfterAStop) {
  Start();
  served_->Stop();
  Reconcile({Job(3, 1)});
  served_.reset();
  EXPECT_TRUE(quiet());
}

}  // namespace
}  // namespace sangam
