#include "worker/runtime/prepared_job.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/data/data_root.h"
#include "common/plan/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "tests/testing/fake_pipeline_network.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/worker_job.h"
#include "worker/backend/backends.h"
#include "worker/backend/precision.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class PreparedJobTest : public ::testing::Test {
 protected:
  PreparedJobTest()
      : folder_(testing::FreshFolder(absl::StrCat(
            "prepared_job_", ::testing::UnitTest::GetInstance()->current_test_info()->name()))),
        root_(DataRoot::Create(folder_).value()) {
    job_.workers = 3;
    testing::WriteData(job_, folder_);
    assignment_ = testing::MakeAssignment(job_, v1::Assignment::PREPARE);
    options_.data_root = &root_;
    options_.threads = 2;
  }

  absl::StatusOr<std::unique_ptr<PreparedJob>> Prepare(uint32_t worker) {
    return PrepareJob(assignment_, worker, options_);
  }
  void ExpectRefused(absl::StatusCode code, const std::string& words) {
    const auto job = Prepare(0);
    EXPECT_EQ(job.status().code(), code) << job.status();
    EXPECT_THAT(std::string(job.status().message()), HasSubstr(words));
  }

  testing::WorkerJob job_;
  const std::string folder_;
  const DataRoot root_;
  v1::Assignment assignment_;
  PrepareOptions options_;
};

TEST_F(PreparedJobTest, BuildsWhatTheWorkersPartNeeds) {
  const auto job = Prepare(1);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->shares, (ShareSpan{2, 5}));
  EXPECT_EQ((*job)->blocks.size(), 5);
  ASSERT_EQ((*job)->lanes.size(), 2);
  ASSERT_EQ((*job)->lanes[1].stages.size(), 1);
  EXPECT_EQ((*job)->lanes[1].stages[0].scratch.size(), 5);
  ASSERT_EQ((*job)->lanes[1].stages[0].slots.size(), 1);
  const SlotMemory& slot = (*job)->lanes[1].stages[0].slots[0];
  EXPECT_EQ(slot.states.size(), 5);
  // Of the loss: micro-batches of at most 3, 5 classes.
  EXPECT_EQ(slot.output_gradients[4]->size(), 3 * 5);
  EXPECT_EQ(slot.output_gradients[3], nullptr);
  EXPECT_EQ((*job)->pipeline, nullptr);
  const v1::ReadyReport facts = (*job)->Facts();
  EXPECT_EQ(facts.train_samples(), 70);
  EXPECT_EQ(facts.test_samples(), 23);
  EXPECT_EQ(facts.classes(), 5);
}

TEST_F(PreparedJobTest, AWorkerWithoutSharesNeedsNothing) {
  job_.workers = 9;
  assignment_ = testing::MakeAssignment(job_, v1::Assignment::PREPARE);
  options_.memory_limit = 1;
  const auto job = Prepare(0);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE((*job)->shares.empty());
  EXPECT_TRUE((*job)->lanes.empty());
  EXPECT_EQ((*job)->Facts().train_samples(), 0);
  // Nothing that was opened counts against the limit.
  options_.threads = 1;
  options_.memory_limit = uint64_t{1} << 30;
  EXPECT_TRUE(Prepare(0).ok());
}

TEST_F(PreparedJobTest, AStageHoldsItsOwnBlocksOnly) {
  job_.deep = true;
  job_.workers = job_.ranks = 3;
  job_.lanes = 2;
  assignment_ = testing::MakeAssignment(job_, v1::Assignment::PREPARE);
  testing::FakePipelineNetwork network;
  options_.make_pipeline_link = network.Factory();
  const auto first = Prepare(0);
  const auto middle = Prepare(1);
  const auto last = Prepare(2);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(middle.ok()) << middle.status();
  ASSERT_TRUE(last.ok()) << last.status();
  // Ten blocks: 3, 3 and 4.
  EXPECT_NE((*first)->blocks[2], nullptr);
  EXPECT_EQ((*first)->blocks[3], nullptr);
  EXPECT_NE((*middle)->blocks[3], nullptr);
  EXPECT_EQ((*last)->blocks[5], nullptr);
  // Micro-batches in flight: 3, 2 and 1, as far as a lane has so many.
  EXPECT_EQ((*first)->lanes[0].stages[0].slots.size(), 3);
  EXPECT_EQ((*middle)->lanes[0].stages[0].slots.size(), 2);
  EXPECT_EQ((*last)->lanes[0].stages[0].slots.size(), 1);
  // Who reads data, and what it wants of it.
  EXPECT_EQ((*first)->Facts().train_samples(), 70);
  EXPECT_EQ((*middle)->Facts().train_samples(), 0);
  EXPECT_EQ((*last)->Facts().train_samples(), 70);
  EXPECT_EQ((*first)->WantedBatches().input_elements, 36);
  EXPECT_EQ((*first)->WantedBatches().labels_per_sample, 0);
  EXPECT_EQ((*first)->WantedBatches().held, 3);
  EXPECT_EQ((*last)->WantedBatches().input_elements, 0);
  EXPECT_EQ((*last)->WantedBatches().labels_per_sample, 1);
  EXPECT_EQ((*first)->loss, nullptr);
  EXPECT_NE((*last)->loss, nullptr);
  EXPECT_NE((*middle)->pipeline, nullptr);
}

TEST_F(PreparedJobTest, ServedDataIsNotOpened) {
  options_.data_root = nullptr;
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "without --data_root");
  assignment_.mutable_spec()->mutable_data()->set_served(true);
  assignment_.mutable_spec()->mutable_data()->mutable_idx()->set_train_images("nowhere");
  const auto job = Prepare(0);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->Facts().train_samples(), 0);
}

TEST_F(PreparedJobTest, SaysWhatNeedsHowMuchMemoryWhenThereIsTooLittle) {
  options_.memory_limit = 20'000;
  const auto job = Prepare(0);
  EXPECT_EQ(job.status().code(), absl::StatusCode::kResourceExhausted);
  for (const char* words :
       {"data 0.0", "weights 0.0", "gradients 0.0", "memory_limit is 0.0 MiB"}) {
    EXPECT_THAT(std::string(job.status().message()), HasSubstr(words));
  }
  options_.memory_limit = 1'000'000;
  EXPECT_TRUE(Prepare(0).ok());
}

TEST_F(PreparedJobTest, SharesAreComputedTogetherWhereRowsStandAlone) {
  options_.threads = 1;
  const auto group = [this](const testing::WorkerJob& job) -> uint32_t {
    testing::WriteData(job, folder_);
    assignment_ = testing::MakeAssignment(job, v1::Assignment::PREPARE);
    const auto prepared = Prepare(0);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    return prepared.ok() ? (*prepared)->group : 0;
  };
  const bool stand_alone = RowsStandAlone("cpu", Precision::kFp32);
  if (const char* isa = std::getenv("DNNL_MAX_CPU_ISA"); isa != nullptr) {
    const bool has_them = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    EXPECT_EQ(stand_alone, has_them && absl::string_view(isa) == "AVX2");
  }
  testing::WorkerJob job;
  EXPECT_EQ(group(job), stand_alone ? 8u : 1u);
  job.workers = 3;  // the first has two shares
  EXPECT_EQ(group(job), stand_alone ? 2u : 1u);
  testing::WorkerJob wide;
  wide.batch = wide.train_samples = 512;  // 64 rows each
  EXPECT_EQ(group(wide), stand_alone ? 2u : 1u);
  testing::WorkerJob parts;
  parts.shares = 4;  // of two micro-batches each
  EXPECT_EQ(group(parts), 1u);
  testing::WorkerJob short_factors;
  short_factors.precision = v1::BF16;
  EXPECT_EQ(group(short_factors), 1u);
  testing::WorkerJob cnn;
  cnn.cnn = true;  // statistics of a micro-batch
  EXPECT_EQ(group(cnn), 1u);
  testing::WorkerJob deep;
  deep.deep = true;  // a block that recomputes
  EXPECT_EQ(group(deep), 1u);
}

TEST_F(PreparedJobTest, RefusesAnUnknownBackend) {
  options_.backend = "abacus";
  ExpectRefused(absl::StatusCode::kInvalidArgument, "abacus");
}

TEST_F(PreparedJobTest, RefusesPlansThatItCannotFollow) {
  assignment_.mutable_plan()->add_stage();
  ExpectRefused(absl::StatusCode::kInvalidArgument, "plan.stage[1]");
  assignment_ = testing::MakeAssignment(job_, v1::Assignment::PREPARE);
  assignment_.mutable_plan()->set_micro_batches(21);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "plan.micro_batches: found 21");
  assignment_ = testing::MakeAssignment(job_, v1::Assignment::PREPARE);
  assignment_.mutable_spec()->mutable_model()->mutable_block()->RemoveLast();
  ExpectRefused(absl::StatusCode::kInvalidArgument, "found 5 blocks, expected 4");
  assignment_ = testing::MakeAssignment(job_, v1::Assignment::PREPARE);
  assignment_.mutable_plan()->mutable_layout()->mutable_block(1)->set_segment(7);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "plan.layout.block[1].segment");
  EXPECT_EQ(Prepare(3).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(PreparedJobTest, EndsWhenCancelled) {
  const std::atomic<bool> cancelled{true};
  options_.cancelled = &cancelled;
  ExpectRefused(absl::StatusCode::kCancelled, "cancelled");
}

}  // namespace
}  // namespace sangam
