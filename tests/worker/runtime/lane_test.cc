#include "worker/runtime/lane.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/data/data_root.h"
#include "common/data/dataset.h"
#include "common/plan/batch_cut.h"
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
#include "worker/data/batch_source.h"
#include "worker/runtime/host_pins.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/run_latch.h"
#include "worker/runtime/run_reporter.h"
#include "worker/runtime/step_gate.h"

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
  absl::Status PushPages(uint64_t, uint32_t segment, uint32_t, ShareSpan span, uint64_t samples,
                         const FloatBuffer& sum, PageSpan) override {
    sent.push_back({segment, span, samples, sum});
    return absl::OkStatus();
  }
  absl::Status Close(absl::Duration) override { return absl::OkStatus(); }

  std::vector<Sent> sent;
};

// Delivers the first samples of a data set, in batches that are said beforehand.
class SaidBatches : public BatchSource {
 public:
  SaidBatches(const Dataset* data, std::vector<Batch> batches)
      : data_(data), batches_(std::move(batches)) {}

  absl::StatusOr<Batch> Take(size_t, absl::Duration) override {
    if (next_ >= batches_.size()) return absl::OutOfRangeError("no more batches");
    Batch batch = batches_[next_++];
    inputs_.emplace_back(batch.rows * data_->sample_elements());
    labels_.emplace_back(batch.rows);
    for (uint64_t r = 0; r < batch.rows; ++r) {
      RETURN_IF_ERROR(
          data_->Read(r, inputs_.back().data() + r * data_->sample_elements(), &labels_.back()[r]));
    }
    batch.inputs = inputs_.back().data();
    batch.labels = labels_.back().data();
    return batch;
  }
  void Stop() override {}

 private:
  const Dataset* data_;
  std::vector<Batch> batches_;
  size_t next_ = 0;
  std::deque<std::vector<float>> inputs_;
  std::deque<std::vector<uint32_t>> labels_;
};

// One lane of one worker, by hand: one step of two shares of two micro-batches, which have 5
// samples together: 1, 1, 1 and 2.
class LaneTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string folder = testing::FreshFolder(absl::StrCat(
        "lane_", ::testing::UnitTest::GetInstance()->current_test_info()->line(), "_", GetParam()));
    root_ = DataRoot::Create(folder).value();
    testing::WorkerJob job;
    job.micro_batches = 4;
    job.shares = 2;
    testing::WriteData(job, folder);
    const v1::Assignment assignment = testing::MakeAssignment(job, v1::Assignment::RUN);
    PrepareOptions prepare;
    prepare.data_root = &*root_;
    prepare.backend = GetParam();
    job_ = PrepareJob(assignment, 0, prepare).value();
    reporter_ = std::make_unique<RunReporter>(3, 1, ProgressLedger({0, 2}, 1, 2), &sink_);
    train_ = BuildStepProgram(job_->plan, {}, RoundKind::kTrain).value();
    ProgramInputs inputs;
    inputs.evaluation_chunks = 2;
    evaluate_ = BuildStepProgram(job_->plan, inputs, RoundKind::kEvaluate).value();
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
    parts_.gate = &gate_;
    parts_.pins = &pins_;
    parts_.stall_limit = absl::Milliseconds(50);
    SetSamples(5);
    SetBatches({{0, 1}, {1, 1}, {2, 1}, {3, 2}});
  }

  // The step's samples.
  void SetSamples(uint64_t samples) {
    parts_.cut = job_->cut;
    parts_.cut.training_samples = samples;
  }

  // What the source delivers: index and number of samples.
  void SetBatches(const std::vector<std::pair<uint32_t, uint64_t>>& said, bool evaluation = false) {
    std::vector<Batch> batches;
    for (const auto& [index, rows] : said) {
      Batch batch;
      batch.id = {evaluation, 0, index};
      batch.rows = rows;
      batches.push_back(std::move(batch));
    }
    const Dataset* data = evaluation ? job_->data.test.get() : job_->data.train.get();
    batches_ = std::make_unique<SaidBatches>(data, std::move(batches));
    parts_.batches = batches_.get();
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
  StepGate gate_;
  HostPins pins_;
  std::unique_ptr<SaidBatches> batches_;
  RunParts parts_;
};

INSTANTIATE_TEST_SUITE_P(Backends, LaneTest, ::testing::Values("cpu", "lazy"),
                         [](const auto& info) { return info.param; });

TEST_P(LaneTest, SumsOverTheSamplesOfItsShares) {
  LandWeights();
  ASSERT_TRUE(Lane(parts_, 0).Run().ok());
  // With zero weights every output is zero: the loss of a sample is log 5, the output bias's
  // gradient is softmax - onehot, whose sum over the classes is 0.
  const auto entries = sink_.entries();
  ASSERT_EQ(entries.size(), 3);  // losses, the traced step, the times of the blocks
  const v1::StepReport& step = entries[0].report.step();
  EXPECT_NEAR(step.loss_sum(0), 2 * std::log(5.0), 1e-5);
  EXPECT_EQ(step.samples(0), 2);
  EXPECT_NEAR(step.loss_sum(1), 3 * std::log(5.0), 1e-5);
  EXPECT_EQ(step.samples(1), 3);
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

TEST_P(LaneTest, AShareWithoutSamplesCountsAsZerosWhateverTheBuffersHeld) {
  LandWeights();
  // What an earlier use may have left behind.
  for (uint32_t s = 0; s < 3; ++s) {
    const FloatBuffer dirty = job_->outbox->Take(s, 0).value();
    std::fill_n(dirty.data(), dirty.size(), 7.0f);
  }
  // One sample for both shares: the first one has none.
  SetSamples(1);
  SetBatches({{0, 0}, {1, 0}, {2, 0}, {3, 1}});
  ASSERT_TRUE(Lane(parts_, 0).Run().ok());
  ASSERT_EQ(link_.sent.size(), 3);
  for (const KeepingLink::Sent& sent : link_.sent) {
    EXPECT_EQ(sent.samples, 1);
    for (size_t e = 0; e < sent.sum.size(); ++e) ASSERT_LT(std::abs(sent.sum.data()[e]), 1);
  }
}

TEST_P(LaneTest, ErrorsNameRoundStepAndInstruction) {
  const absl::Status no_weights = Lane(parts_, 0).Run();
  EXPECT_EQ(no_weights.code(), absl::StatusCode::kDeadlineExceeded);
  // A pass whose backend computes at once waits for its weights itself.
  EXPECT_THAT(
      std::string(no_weights.message()),
      HasSubstr(GetParam() == std::string("cpu") ? "training at step 0, Forward b1 mb 0: waited"
                                                 : "training at step 0, AwaitWeights b1: waited"));
}

TEST_P(LaneTest, DataThatEndsTooEarlyIsSeen) {
  LandWeights();
  SetBatches({{0, 1}});
  const absl::Status status = Lane(parts_, 0).Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("training at step 0, LoadBatch mb 1: "));
}

TEST_P(LaneTest, AnotherBatchThanTheProgramLoadsIsSeen) {
  LandWeights();
  SetBatches({{0, 1}, {2, 1}});
  EXPECT_EQ(Lane(parts_, 0).Run().code(), absl::StatusCode::kInternal);
}

TEST_P(LaneTest, ATrippedLatchEndsItBeforeTheNextInstruction) {
  latch_.Trip(absl::InternalError("elsewhere"));
  EXPECT_EQ(Lane(parts_, 0).Run().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(link_.sent.empty());
}

TEST_P(LaneTest, EvaluationScoresChunksAndSendsNoGradient) {
  LandWeights();
  parts_.timeline.first_step = 0;
  parts_.timeline.steps_total = 0;
  parts_.timeline.evaluate = true;
  parts_.test_samples = 8;  // chunks of at most 5
  SetBatches({{0, 5}, {1, 3}}, /*evaluation=*/true);
  ASSERT_TRUE(Lane(parts_, 0).Run().ok());
  EXPECT_TRUE(link_.sent.empty());
  const auto entries = sink_.entries();
  ASSERT_EQ(entries.size(), 2);
  const v1::EvaluationReport& report = entries[0].report.evaluation();
  ASSERT_EQ(report.chunk_size(), 2);
  EXPECT_EQ(report.chunk(0).samples(), 5);
  EXPECT_EQ(report.chunk(1).samples(), 3);
  EXPECT_NEAR(report.chunk(1).loss_sum(), 3 * std::log(5.0), 1e-5);
  // All outputs are equal: the first class counts as the answer.
  uint64_t zeros = 0;
  for (uint64_t sample = 0; sample < 5; ++sample) {
    std::vector<float> row(36);
    uint32_t label = 0;
    ASSERT_TRUE(job_->data.test->Read(sample, row.data(), &label).ok());
    zeros += label == 0 ? 1 : 0;
  }
  EXPECT_EQ(report.chunk(0).correct(), zeros);
}

}  // namespace
}  // namespace sangam
