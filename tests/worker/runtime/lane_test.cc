#include "worker/runtime/lane.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "tests/testing/recording_sink.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/worker_job.h"
#include "worker/core/progress_ledger.h"
#include "worker/core/step_program.h"
#include "worker/data/data_root.h"
#include "worker/data/prefetcher.h"
#include "worker/data/sampler.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/run_latch.h"
#include "worker/runtime/run_reporter.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

// Keeps the gradients; no weights ever come by themselves.
class KeepingLink : public ParameterLink {
 public:
  struct Sent {
    uint32_t segment;
    ShareSpan span;
    uint64_t samples;
    FloatBuffer sum;
  };
  absl::Status Start(const std::vector<uint32_t>&, uint64_t, WeightsReceiver*) override {
    return absl::OkStatus();
  }
  absl::Status PushGradient(uint64_t, uint32_t segment, ShareSpan span, uint64_t samples,
                            const FloatBuffer& sum) override {
    sent.push_back({segment, span, samples, sum});
    return absl::OkStatus();
  }
  absl::Status Close(absl::Duration) override { return absl::OkStatus(); }

  std::vector<Sent> sent;
};

// One lane of one worker, by hand: one step of two shares, the first of which has `rows` samples a
// micro-batch, the second none.
class LaneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = testing::FreshFolder(
        absl::StrCat("lane_", ::testing::UnitTest::GetInstance()->current_test_info()->name()));
    root_ = DataRoot::Create(folder).value();
    testing::WorkerJob job;
    job.micro_batches = 4;
    job.shares = 2;
    testing::WriteData(job, folder);
    const v1::Assignment assignment = testing::MakeAssignment(job, v1::Assignment::RUN);
    PrepareOptions prepare;
    prepare.data_root = &*root_;
    job_ = PrepareJob(assignment, 0, prepare).value();
    reporter_ = std::make_unique<RunReporter>(
        3, 1, ProgressLedger({0, 2}, 1, static_cast<uint32_t>(job_->evaluation_chunks)), &sink_);
    train_ = BuildStepProgram(job_->plan, {}, RoundKind::kTrain).value();
    evaluate_ = BuildStepProgram(job_->plan, {0, 1, 2}, RoundKind::kEvaluate).value();
    finish_.lanes.resize(1);
    parts_.job = job_.get();
    parts_.timeline.steps_total = 1;
    parts_.timeline.evaluate = false;
    parts_.train = &train_;
    parts_.evaluate = &evaluate_;
    parts_.finish = &finish_;
    parts_.link = &link_;
    parts_.reporter = reporter_.get();
    parts_.latch = &latch_;
    parts_.stall_limit = absl::Milliseconds(50);
    SetRuns({{0, 3}, {1, 2}, {2, 0}, {3, 0}});
  }

  // What the prefetcher delivers: tag and number of samples.
  void SetRuns(std::vector<std::pair<uint64_t, uint64_t>> runs) {
    auto next = std::make_shared<size_t>(0);
    prefetcher_ = Prefetcher::Start(job_->PrefetchOptions(),
                                    [this, runs, next](size_t) -> std::optional<SampleRun> {
                                      if (*next >= runs.size()) return std::nullopt;
                                      SampleRun run;
                                      run.dataset = job_->data.train.get();
                                      run.order = Sampler::InOrder(70);
                                      run.tag = runs[*next].first;
                                      run.count = runs[*next].second;
                                      ++*next;
                                      return run;
                                    })
                      .value();
    parts_.prefetcher = prefetcher_.get();
  }

  // All weights of step 0 come: zeros.
  void LandWeights() {
    const auto pages = PageMap::Create(job_->plan).value();
    for (uint32_t s = 0; s < pages.num_segments(); ++s) {
      for (const PageRange& page : pages.pages(s)) {
        v1::FrameHeader header;
        header.set_job(3);
        header.set_generation(1);
        header.set_kind(v1::FRAME_KIND_WEIGHTS);
        header.set_encoding(v1::ENCODING_FP32);
        header.set_segment(s);
        header.set_first_element(page.first_element);
        header.set_element_count(page.element_count);
        const FloatBuffer zeros = FloatBuffer::Allocate(page.element_count).value();
        ASSERT_TRUE(
            job_->store->OnWeights(header, SlicePayload::FromFloats(zeros, 0, page.element_count))
                .ok());
      }
    }
  }

  std::optional<DataRoot> root_;
  std::unique_ptr<PreparedJob> job_;
  testing::RecordingSink sink_;
  std::unique_ptr<RunReporter> reporter_;
  StepProgram train_;
  StepProgram evaluate_;
  StepProgram finish_;
  KeepingLink link_;
  RunLatch latch_;
  std::unique_ptr<Prefetcher> prefetcher_;
  RunParts parts_;
};

TEST_F(LaneTest, SumsOverTheSamplesOfItsShares) {
  LandWeights();
  ASSERT_TRUE(Lane(parts_, 0).Run().ok());
  // With zero weights every output is zero: the loss of a sample is log 5, the output bias's
  // gradient is softmax - onehot, whose sum over the classes is 0.
  const auto entries = sink_.entries();
  ASSERT_EQ(entries.size(), 1);
  const v1::StepReport& step = entries[0].report.step();
  EXPECT_NEAR(step.loss_sum(0), 5 * std::log(5.0), 1e-5);
  EXPECT_EQ(step.samples(0), 5);
  EXPECT_EQ(step.loss_sum(1), 0);
  EXPECT_EQ(step.samples(1), 0);
  ASSERT_EQ(link_.sent.size(), 3);
  EXPECT_EQ(link_.sent[0].segment, 2);
  EXPECT_EQ(link_.sent[2].segment, 0);
  EXPECT_EQ(link_.sent[0].span, (ShareSpan{0, 2}));
  EXPECT_EQ(link_.sent[0].samples, 5);
  const FloatBuffer& out = link_.sent[0].sum;  // weight [5, 9], then bias [5]
  float bias = 0;
  float largest = 0;
  for (size_t e = 45; e < 50; ++e) {
    bias += out.data()[e];
    largest = std::max(largest, std::abs(out.data()[e]));
  }
  EXPECT_NEAR(bias, 0, 1e-5);
  EXPECT_GE(largest, 0.2f);
}

TEST_F(LaneTest, AStepWithoutSamplesSendsZerosWhateverTheBuffersHeld) {
  LandWeights();
  // What an earlier use may have left behind.
  for (uint32_t s = 0; s < 3; ++s) {
    const FloatBuffer dirty = job_->outbox->Take(s).value();
    std::fill_n(dirty.data(), dirty.size(), 7.0f);
  }
  SetRuns({{0, 0}, {1, 0}, {2, 0}, {3, 0}});
  ASSERT_TRUE(Lane(parts_, 0).Run().ok());
  ASSERT_EQ(link_.sent.size(), 3);
  for (const KeepingLink::Sent& sent : link_.sent) {
    EXPECT_EQ(sent.samples, 0);
    for (size_t e = 0; e < sent.sum.size(); ++e) ASSERT_EQ(sent.sum.data()[e], 0);
  }
}

TEST_F(LaneTest, ErrorsNameRoundStepAndInstruction) {
  const absl::Status no_weights = Lane(parts_, 0).Run();
  EXPECT_EQ(no_weights.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(no_weights.message()),
              HasSubstr("training at step 0, AwaitWeights b1: "));
}

TEST_F(LaneTest, DataThatEndsTooEarlyIsSeen) {
  LandWeights();
  SetRuns({{0, 3}});
  const absl::Status status = Lane(parts_, 0).Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("training at step 0, LoadBatch 1: "));
}

TEST_F(LaneTest, AnotherBatchThanTheProgramLoadsIsSeen) {
  LandWeights();
  SetRuns({{0, 3}, {2, 3}});
  EXPECT_EQ(Lane(parts_, 0).Run().code(), absl::StatusCode::kInternal);
}

TEST_F(LaneTest, ATrippedLatchEndsItBeforeTheNextInstruction) {
  latch_.Trip(absl::InternalError("elsewhere"));
  EXPECT_EQ(Lane(parts_, 0).Run().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_F(LaneTest, EvaluationScoresChunksAndSendsNoGradient) {
  LandWeights();
  parts_.timeline.first_step = 0;
  parts_.timeline.steps_total = 0;
  parts_.timeline.evaluate = true;
  SetRuns({{0, 3}, {1, 2}});
  ASSERT_TRUE(Lane(parts_, 0).Run().ok());
  EXPECT_TRUE(link_.sent.empty());
  const auto entries = sink_.entries();
  ASSERT_EQ(entries.size(), 1);
  const v1::EvaluationReport& report = entries[0].report.evaluation();
  ASSERT_EQ(report.chunk_size(), 2);
  EXPECT_EQ(report.chunk(0).samples(), 3);
  EXPECT_EQ(report.chunk(1).samples(), 2);
  EXPECT_NEAR(report.chunk(1).loss_sum(), 2 * std::log(5.0), 1e-5);
  // All outputs are equal: the first class counts as the answer.
  uint64_t zeros = 0;
  for (uint64_t sample = 0; sample < 3; ++sample) {
    std::vector<float> row(36);
    uint32_t label = 0;
    ASSERT_TRUE(job_->data.train->Read(sample, row.data(), &label).ok());
    zeros += label == 0 ? 1 : 0;
  }
  EXPECT_EQ(report.chunk(0).correct(), zeros);
}

}  // namespace
}  // namespace sangam
