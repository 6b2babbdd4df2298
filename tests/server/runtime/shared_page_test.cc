#include "server/runtime/shared_page.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/model/learning_rate.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/optimizer.h"
#include "server/core/parameter_page.h"
#include "server/runtime/parameter_shard.h"
#include "tests/server/core/naive_merge.h"
#include "tests/server/runtime/shard_fixture.h"

namespace sangam {
namespace {

using Steps = std::vector<uint64_t>;

constexpr absl::Duration kLong = absl::Seconds(60);

// Page [100,102) of segment 7 of job 9, generation 1; weights 0, plain descent with rate 1.
std::unique_ptr<SharedPage> MakePage(uint32_t shares) {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(1);
  spec.mutable_sgd();
  ParameterPage::Options options;
  options.segment = 7;
  options.first_element = 100;
  options.element_count = 2;
  options.generation = 1;
  options.shares = shares;
  ParameterPage page =
      *ParameterPage::Create(options, *Optimizer::Create(spec), *FloatBuffer::Allocate(2));
  EXPECT_TRUE(page.Begin(*LearningRate::Create(spec, 0)).ok());
  return std::make_unique<SharedPage>(9, std::move(page));
}

// The whole gradient of `step`: {-1, -2} for one sample.
absl::Status Complete(SharedPage* page, uint64_t step, uint32_t shares = 1) {
  return page->Add({1, step, {0, shares}, 1}, OnePiece({-1, -2})).status();
}

Steps StepsOf(const RecordingSink& sink) { return sink.Steps(7, 100); }

TEST(SharedPageTest, ReadGivesTheNewestWeightsWithACompleteHeader) {
  const std::unique_ptr<SharedPage> page = MakePage(1);
  ASSERT_TRUE(Complete(page.get(), 0).ok());
  const PageWeights weights = page->Read();
  EXPECT_EQ(weights.header.job(), 9u);
  EXPECT_EQ(weights.header.generation(), 1u);
  EXPECT_EQ(weights.header.step(), 1u);
  EXPECT_EQ(weights.header.segment(), 7u);
  EXPECT_EQ(weights.header.first_element(), 100u);
  EXPECT_EQ(weights.header.element_count(), 2u);
  EXPECT_EQ(weights.header.kind(), v1::FRAME_KIND_WEIGHTS);
  EXPECT_EQ(weights.header.encoding(), v1::ENCODING_FP32);
  EXPECT_EQ(FloatsOf(weights.elements), (std::vector<float>{1, 2}));
}

TEST(SharedPageTest, SubscriberGetsWhatIsThereAndThenEveryUpdateOnce) {
  const std::unique_ptr<SharedPage> page = MakePage(2);
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(page->Subscribe(1, 0, sink).ok());
  EXPECT_EQ(StepsOf(*sink), Steps{0});
  ASSERT_TRUE(page->Add({1, 0, {0, 1}, 1}, OnePiece({1, 1})).ok());
  EXPECT_EQ(StepsOf(*sink), Steps{0});
  ASSERT_TRUE(page->Add({1, 0, {1, 2}, 1}, OnePiece({1, 1})).ok());
  ASSERT_TRUE(page->Add({1, 0, {1, 2}, 1}, OnePiece({1, 1})).ok());
  ASSERT_TRUE(Complete(page.get(), 1, 2).ok());
  EXPECT_EQ(StepsOf(*sink), (Steps{0, 1, 2}));
  EXPECT_EQ(sink->sent()[1].values, (std::vector<float>{-1, -1}));
}

TEST(SharedPageTest, SubscribingAgainSendsNothingTwice) {
  const std::unique_ptr<SharedPage> page = MakePage(1);
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(page->Subscribe(1, 0, sink).ok());
  ASSERT_TRUE(page->Subscribe(1, 0, sink).ok());
  ASSERT_TRUE(Complete(page.get(), 0).ok());
  EXPECT_EQ(StepsOf(*sink), (Steps{0, 1}));
}

TEST(SharedPageTest, SubscriberThatWantsALaterStepWaitsForIt) {
  const std::unique_ptr<SharedPage> page = MakePage(1);
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(page->Subscribe(1, 2, sink).ok());
  ASSERT_TRUE(Complete(page.get(), 0).ok());
  EXPECT_EQ(StepsOf(*sink), Steps());
  ASSERT_TRUE(Complete(page.get(), 1).ok());
  EXPECT_EQ(StepsOf(*sink), Steps{2});
}

// A worker that must redo step t needs the weights of t of all pages, also of those at t + 1.
TEST(SharedPageTest, SubscriberThatWantsTheVersionBeforeGetsBoth) {
  const std::unique_ptr<SharedPage> page = MakePage(1);
  for (uint64_t step = 0; step < 5; ++step) ASSERT_TRUE(Complete(page.get(), step).ok());
  const auto wants_before = std::make_shared<RecordingSink>();
  ASSERT_TRUE(page->Subscribe(1, 4, wants_before).ok());
  EXPECT_EQ(StepsOf(*wants_before), (Steps{4, 5}));
  EXPECT_EQ(wants_before->sent()[0].values, (std::vector<float>{4, 8}));
  const auto wants_any = std::make_shared<RecordingSink>();
  ASSERT_TRUE(page->Subscribe(1, 0, wants_any).ok());
  EXPECT_EQ(StepsOf(*wants_any), Steps{5});
}

TEST(SharedPageTest, UnsubscribedSinkGetsNothingAndIsLetGo) {
  const std::unique_ptr<SharedPage> page = MakePage(1);
  auto gone = std::make_shared<RecordingSink>();
  const auto stays = std::make_shared<RecordingSink>();
  ASSERT_TRUE(page->Subscribe(1, 0, gone).ok());
  ASSERT_TRUE(page->Subscribe(1, 0, stays).ok());
  page->Unsubscribe(gone.get());
  EXPECT_EQ(gone.use_count(), 1);
  ASSERT_TRUE(Complete(page.get(), 0).ok());
  EXPECT_EQ(StepsOf(*gone), Steps{0});
  EXPECT_EQ(StepsOf(*stays), (Steps{0, 1}));
  page->UnsubscribeAll();
  EXPECT_EQ(stays.use_count(), 1);
}

// The first sink, while it is being sent step 1, lets the page reach step 2: as if another thread
// were faster than this one. The second sink must not see step 2 before step 1.
TEST(SharedPageTest, AnUpdateDuringASendIsSentAfterIt) {
  const std::unique_ptr<SharedPage> page = MakePage(1);
  const auto hasty = std::make_shared<RecordingSink>([&page](const PageWeights& weights) {
    if (weights.header.step() != 1) return;
    EXPECT_TRUE(Complete(page.get(), 1).ok());
  });
  const auto second = std::make_shared<RecordingSink>();
  ASSERT_TRUE(page->Subscribe(1, 1, hasty).ok());
  ASSERT_TRUE(page->Subscribe(1, 1, second).ok());
  ASSERT_TRUE(Complete(page.get(), 0).ok());
  EXPECT_EQ(StepsOf(*hasty), (Steps{1, 2}));
  EXPECT_EQ(StepsOf(*second), (Steps{1, 2}));
}

// As above with real threads: one is kept inside Send until the other has made two more updates.
TEST(SharedPageTest, StepsNeverGoBackwardsWhenASenderIsSlow) {
  const std::unique_ptr<SharedPage> page = MakePage(1);
  std::unique_ptr<std::thread> faster;
  const auto slow = std::make_shared<RecordingSink>([&](const PageWeights& weights) {
    if (weights.header.step() != 1) return;
    faster = std::make_unique<std::thread>([&page] {
      EXPECT_TRUE(Complete(page.get(), 1).ok());
      EXPECT_TRUE(Complete(page.get(), 2).ok());
    });
    faster->join();
  });
  const auto other = std::make_shared<RecordingSink>();
  ASSERT_TRUE(page->Subscribe(1, 1, slow).ok());
  ASSERT_TRUE(page->Subscribe(1, 1, other).ok());
  ASSERT_TRUE(Complete(page.get(), 0).ok());
  EXPECT_EQ(StepsOf(*slow), (Steps{1, 2, 3}));
  EXPECT_EQ(StepsOf(*other), (Steps{1, 2, 3}));
}

TEST(SharedPageTest, SinkMayCallBackWhileItIsSent) {
  const std::unique_ptr<SharedPage> page = MakePage(1);
  std::shared_ptr<RecordingSink> sink;
  sink = std::make_shared<RecordingSink>([&](const PageWeights&) {
    page->Read();
    page->Unsubscribe(sink.get());
  });
  ASSERT_TRUE(page->Subscribe(1, 0, sink).ok());
  ASSERT_TRUE(Complete(page.get(), 0).ok());
  EXPECT_EQ(StepsOf(*sink), Steps{0});
}

TEST(SharedPageTest, WeightsThatWereSentNeverChange) {
  const std::unique_ptr<SharedPage> page = MakePage(1);
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(page->Subscribe(1, 0, sink).ok());
  for (uint64_t step = 0; step < 6; ++step) ASSERT_TRUE(Complete(page.get(), step).ok());
  for (const RecordingSink::Sent& sent : sink->sent()) {
    const float step = static_cast<float>(sent.header.step());
    EXPECT_EQ(FloatsOf(sent.elements), (std::vector<float>{step, 2 * step}));
  }
}

TEST(SharedPageTest, OnlyItsOwnGenerationIsServed) {
  const std::unique_ptr<SharedPage> page = MakePage(1);
  const auto sink = std::make_shared<RecordingSink>();
  EXPECT_EQ(page->Subscribe(0, 0, sink).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(page->Subscribe(2, 0, sink).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(sink.use_count(), 1);
  ASSERT_TRUE(page->Subscribe(1, 0, sink).ok());
  EXPECT_EQ(page->Read().header.generation(), 1u);
}

TEST(SharedPageTest, ErrorsOfThePageComeThrough) {
  const std::unique_ptr<SharedPage> page = MakePage(2);
  EXPECT_EQ(Complete(page.get(), 0, 3).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Complete(page.get(), 1, 2).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Complete(page.get(), 0, 2).ok());
  ASSERT_TRUE(Complete(page.get(), 0, 2).ok());
  EXPECT_EQ(page->ignored().finished, 1u);
  page->Reduce();
  EXPECT_EQ(Complete(page.get(), 1, 2).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(page->Read().header.step(), 1u);
}

// Threads with one share each, in lock step with the page through their own sinks, beside readers
// and sinks that come and go.
TEST(SharedPageTest, ManyThreadsMakeTheSameWeightsAsOne) {
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kSteps = 200;
  const std::unique_ptr<SharedPage> page = MakePage(kThreads);
  const auto gradient = [](uint32_t share, const std::vector<float>& w) {
    const float f = 0.1f + static_cast<float>(share) / 3;
    return std::vector<float>{w[0] * 0.01f + f, w[1] * 0.3f - f};
  };
  std::atomic<bool> done{false};
  std::thread disturber([&page, &done] {
    while (!done) {
      const auto sink = std::make_shared<RecordingSink>();
      EXPECT_TRUE(page->Subscribe(1, 0, sink).ok());
      const PageWeights held = page->Read();
      const std::vector<float> before = FloatsOf(held.elements);
      std::this_thread::yield();
      EXPECT_TRUE(SameBits(FloatsOf(held.elements), before));
      page->Unsubscribe(sink.get());
      const Steps steps = StepsOf(*sink);
      for (size_t i = 1; i < steps.size(); ++i) EXPECT_LT(steps[i - 1], steps[i]);
    }
  });
  std::vector<std::thread> workers;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint32_t share = 0; share < kThreads; ++share) {
    sinks.push_back(std::make_shared<RecordingSink>());
    workers.emplace_back([&page, &gradient, share, sink = sinks.back()] {
      EXPECT_TRUE(page->Subscribe(1, 0, sink).ok());
      for (uint64_t step = 0; step < kSteps; ++step) {
        const std::vector<float> w = sink->Await(7, 100, step, kLong);
        ASSERT_EQ(w.size(), 2u) << "step " << step << " did not come";
        EXPECT_TRUE(page->Add({1, step, {share, share + 1}, 2}, OnePiece(gradient(share, w))).ok());
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  done = true;
  disturber.join();

  std::vector<float> w = {0, 0};
  for (uint64_t step = 0; step < kSteps; ++step) {
    std::vector<std::vector<float>> shares;
    for (uint32_t share = 0; share < kThreads; ++share) shares.push_back(gradient(share, w));
    const std::vector<float> sum = NaiveSum(shares, {0, kThreads});
    for (size_t i = 0; i < 2; ++i) w[i] = w[i] - 1.0f * (sum[i] / 8.0f);
  }
  EXPECT_TRUE(SameBits(FloatsOf(page->Read().elements), w));
  Steps all(kSteps + 1);
  for (uint64_t step = 0; step <= kSteps; ++step) all[step] = step;
  for (const auto& sink : sinks) {
    sink->Await(7, 100, kSteps, kLong);
    EXPECT_EQ(StepsOf(*sink), all);
  }
}

}  // namespace
}  // namespace sangam
