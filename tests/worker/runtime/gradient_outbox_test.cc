#include "worker/runtime/gradient_outbox.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/segment_store.h"

namespace sangam {
namespace {

// Two segments of 3 and 2 elements, one page each. Worker 0 computes the shares `mine` of all
// blocks.
v1::Plan MakePlan(ShareSpan mine, uint32_t shares) {
  v1::Plan plan;
  plan.set_job(1);
  plan.set_generation(1);
  plan.set_page_elements(8);
  plan.set_shares(shares);
  plan.add_server()->set_name("s");
  for (uint32_t s = 0; s < 2; ++s) {
    plan.mutable_layout()->add_block()->set_segment(static_cast<int>(s));
    v1::SegmentLayout* segment = plan.mutable_layout()->add_segment();
    segment->set_block(s);
    segment->set_element_count(3 - s);
    segment->add_use(s);
    plan.add_segment_pages()->add_server(0);
  }
  plan.set_ranks(1);
  plan.add_stage()->set_block_count(2);
  plan.add_worker()->mutable_shares()->set_begin(mine.begin);
  plan.mutable_worker(0)->mutable_shares()->set_end(mine.end);
  return plan;
}

// A third block uses segment 0 again.
void TieThirdBlock(v1::Plan* plan) {
  v1::BlockLayout* head = plan->mutable_layout()->add_block();
  head->set_segment(-1);
  head->set_tied_segment(0);
  plan->mutable_layout()->mutable_segment(0)->add_use(2);
  plan->mutable_stage(0)->set_block_count(3);
}

struct Sent {
  uint64_t step;
  uint32_t segment;
  uint32_t use;
  ShareSpan span;
  uint64_t samples;
  FloatBuffer sum;
  PageSpan pages;
};

// Keeps what it is given, as a link does until the answer has come.
class KeepingLink : public ParameterLink {
 public:
  absl::Status Start(const std::vector<uint32_t>&, uint64_t, WeightsReceiver*) override {
    return absl::OkStatus();
  }
  absl::Status PushPages(uint64_t step, uint32_t segment, uint32_t use, ShareSpan span,
                         uint64_t samples, const FloatBuffer& sum, PageSpan pages) override {
    MutexLock lock(&mutex_);
    if (!answer_.ok()) return answer_;
    sent_.push_back({step, segment, use, span, samples, sum, pages});
    return absl::OkStatus();
  }
  absl::Status Close(absl::Duration) override { return absl::OkStatus(); }

  std::vector<Sent> TakeSent() {
    MutexLock lock(&mutex_);
    return std::exchange(sent_, {});
  }
  void Refuse(const absl::Status& status) {
    MutexLock lock(&mutex_);
    answer_ = status;
  }

 private:
  Mutex mutex_;
  std::vector<Sent> sent_ ABSL_GUARDED_BY(mutex_);
  absl::Status answer_ ABSL_GUARDED_BY(mutex_);
};

class GradientOutboxTest : public ::testing::Test {
 protected:
  void Make(ShareSpan mine, uint32_t shares, uint32_t lanes) {
    plan_ = MakePlan(mine, shares);
    Open(lanes);
  }
  // Pages of one element.
  void CutFine() {
    plan_.set_page_elements(1);
    for (int s = 0; s < 2; ++s) {
      v1::SegmentPages* pages = plan_.mutable_segment_pages(s);
      while (pages->server_size() < 3 - s) pages->add_server(0);
    }
  }
  void Open(uint32_t lanes) {
    outbox_ = GradientOutbox::Create(plan_, 0, lanes).value();
    store_ = SegmentStore::Create(plan_, {0, 1}, 0).value();
    Land(0);
  }
  // The weights of `step` come for both segments.
  void Land(uint64_t step) {
    for (uint32_t s = 0; s < 2; ++s) {
      v1::FrameHeader header;
      header.set_job(1);
      header.set_generation(1);
      header.set_kind(v1::FRAME_KIND_WEIGHTS);
      header.set_encoding(v1::ENCODING_FP32);
      header.set_segment(s);
      header.set_step(step);
      const FloatBuffer weights = FloatBuffer::Allocate(3 - s).value();
      for (uint64_t first = 0; first < weights.size(); first += plan_.page_elements()) {
        const uint64_t count = std::min<uint64_t>(plan_.page_elements(), weights.size() - first);
        header.set_first_element(first);
        header.set_element_count(count);
        ASSERT_TRUE(
            store_->OnWeights(header, SlicePayload::FromFloats(weights, first, count)).ok());
      }
    }
  }
  absl::Status Emit(uint64_t step, uint32_t segment, uint32_t share, float value,
                    uint32_t use = 0) {
    auto buffer = outbox_->Take(segment, use);
    if (!buffer.ok()) return buffer.status();
    std::fill_n(buffer->data(), buffer->size(), value);
    return outbox_->Emit({step, segment, use, share, {*std::move(buffer), 2}}, store_.get(),
                         &link_);
  }

  v1::Plan plan_;
  std::unique_ptr<GradientOutbox> outbox_;
  std::unique_ptr<SegmentStore> store_;
  KeepingLink link_;
};

TEST_F(GradientOutboxTest, SendsASumTheMomentItIsComplete) {
  Make({1, 4}, 4, 1);  // maximal spans [1,2) and [2,4)
  ASSERT_TRUE(Emit(0, 1, 1, 1).ok());
  std::vector<Sent> sent = link_.TakeSent();
  ASSERT_EQ(sent.size(), 1);
  EXPECT_EQ(sent[0].span, (ShareSpan{1, 2}));
  EXPECT_EQ(sent[0].segment, 1);
  EXPECT_EQ(sent[0].samples, 2);
  ASSERT_TRUE(Emit(0, 1, 2, 10).ok());
  EXPECT_TRUE(link_.TakeSent().empty());
  ASSERT_TRUE(Emit(0, 1, 3, 20).ok());
  sent = link_.TakeSent();
  ASSERT_EQ(sent.size(), 1);
  EXPECT_EQ(sent[0].span, (ShareSpan{2, 4}));
  EXPECT_EQ(sent[0].samples, 4);
  EXPECT_EQ(sent[0].sum.data()[1], 30);
  // The other segment has sent nothing.
  EXPECT_TRUE(store_->Await(0, 0, absl::ZeroDuration()).ok());
}

TEST_F(GradientOutboxTest, ExpectsTheNextWeightsWithTheLastSpanAndNotBefore) {
  Make({1, 4}, 4, 1);
  ASSERT_TRUE(Emit(0, 0, 2, 1).ok());
  ASSERT_TRUE(Emit(0, 0, 3, 1).ok());
  // [2,4) is out, [1,2) is not: the weights are still needed.
  EXPECT_TRUE(store_->Await(0, 0, absl::ZeroDuration()).ok());
  ASSERT_TRUE(Emit(0, 0, 1, 1).ok());
  EXPECT_EQ(store_->Await(0, 0, absl::ZeroDuration()).status().code(), absl::StatusCode::kInternal);
}

TEST_F(GradientOutboxTest, PagesLeaveAsTheyBecomeFinal) {
  plan_ = MakePlan({2, 4}, 4);
  CutFine();
  Open(1);
  for (uint64_t step = 0; step < 3; ++step) {
    GradientOutbox::Gradient gradient{step, 0, 0, 2, {*outbox_->Take(0, 0), 6}, 2};
    const auto in_parts = outbox_->BeginParts(gradient, store_.get());
    ASSERT_TRUE(in_parts.ok() && *in_parts) << in_parts.status();
    // From here on the servers may answer.
    EXPECT_EQ(store_->Await(0, step, absl::ZeroDuration()).status().code(),
              absl::StatusCode::kInternal);
    EXPECT_TRUE(link_.TakeSent().empty());
    ASSERT_TRUE(outbox_->EmitPart(gradient, 1, 1, &link_).ok());
    std::vector<Sent> sent = link_.TakeSent();
    ASSERT_EQ(sent.size(), 1);
    EXPECT_EQ(sent[0].pages, (PageSpan{1, 2}));
    EXPECT_EQ(sent[0].span, (ShareSpan{2, 4}));
    EXPECT_EQ(sent[0].step, step);
    EXPECT_EQ(sent[0].samples, 6);
    EXPECT_EQ(sent[0].sum.data(), gradient.sum.values.data());
    ASSERT_TRUE(outbox_->Emit(std::move(gradient), store_.get(), &link_).ok());
    sent = link_.TakeSent();
    ASSERT_EQ(sent.size(), 2);
    EXPECT_EQ(sent[0].pages, (PageSpan{0, 1}));
    EXPECT_EQ(sent[1].pages, (PageSpan{2, 3}));
    ASSERT_TRUE(
        outbox_->Emit({step, 1, 0, 2, {*outbox_->Take(1, 0), 6}, 2}, store_.get(), &link_).ok());
    ASSERT_EQ(link_.TakeSent().size(), 1);
    Land(step + 1);
  }
}

TEST_F(GradientOutboxTest, OnlyAGradientToWhichNothingIsAddedLeavesInParts) {
  const auto in_parts = [&](uint32_t segment, uint32_t share, uint32_t shares) {
    return outbox_->BeginParts({0, segment, 0, share, {FloatBuffer(), 1}, shares}, store_.get())
        .value();
  };
  // Spans of two nodes of the tree; a share beside others; all shares at once.
  Make({1, 4}, 4, 1);
  EXPECT_FALSE(in_parts(0, 2, 2));
  Make({0, 4}, 4, 1);
  EXPECT_FALSE(in_parts(0, 0, 1));
  EXPECT_FALSE(in_parts(0, 0, 2));
  EXPECT_TRUE(in_parts(0, 0, 4));
  // A second use of the segment on this worker.
  plan_ = MakePlan({0, 4}, 4);
  TieThirdBlock(&plan_);
  Open(1);
  EXPECT_FALSE(in_parts(0, 0, 4));
  EXPECT_TRUE(in_parts(1, 0, 4));
  EXPECT_TRUE(store_->Await(0, 0, absl::ZeroDuration()).ok());
}

TEST_F(GradientOutboxTest, RefusesPartsThatDoNotFit) {
  Make({0, 1}, 1, 1);
  GradientOutbox::Gradient gradient{0, 0, 0, 0, {*outbox_->Take(0, 0), 1}};
  EXPECT_EQ(outbox_->EmitPart(gradient, 0, 1, &link_).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(*outbox_->BeginParts(gradient, store_.get()));
  EXPECT_EQ(outbox_->EmitPart(gradient, 2, 2, &link_).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(outbox_->EmitPart(gradient, 0, 2, &link_).ok());
  link_.Refuse(absl::UnavailableError("gone"));
  EXPECT_EQ(outbox_->EmitPart(gradient, 2, 1, &link_).code(), absl::StatusCode::kUnavailable);
}

TEST_F(GradientOutboxTest, NeverGivesOutABufferThatTheLinkHolds) {
  Make({0, 4}, 4, 2);
  std::vector<Sent> held;
  for (uint64_t step = 0; step < 20; ++step) {
    for (uint32_t share = 0; share < 4; ++share) {
      for (const uint32_t segment : {1u, 0u}) {
        auto buffer = outbox_->Take(segment, 0);
        ASSERT_TRUE(buffer.ok()) << buffer.status();
        for (const Sent& sent : held) EXPECT_NE(sent.sum.data(), buffer->data());
        std::fill_n(buffer->data(), buffer->size(), 1.0f);
        ASSERT_TRUE(
            outbox_->Emit({step, segment, 0, share, {*std::move(buffer), 1}}, store_.get(), &link_)
                .ok());
      }
    }
    Land(step + 1);
    // A link that lets go of the step before only now.
    held = link_.TakeSent();
    ASSERT_EQ(held.size(), 2);
    EXPECT_EQ(held[0].sum.data()[0], 4);
  }
}

TEST_F(GradientOutboxTest, ItsMemoryIsBounded) {
  Make({0, 4}, 4, 1);
  // One being computed, up to four that wait for siblings, one sum of this step with the link and
  // one of the step before.
  const uint64_t buffers = 1 + 4 + 2;
  std::vector<FloatBuffer> held;
  for (uint64_t i = 0; i < buffers; ++i) held.push_back(outbox_->Take(0, 0).value());
  EXPECT_EQ(outbox_->Take(0, 0).status().code(), absl::StatusCode::kResourceExhausted);
  held.pop_back();
  EXPECT_TRUE(outbox_->Take(0, 0).ok());
}

TEST_F(GradientOutboxTest, ExpectsTheNextWeightsOnlyAfterBothUses) {
  for (const uint32_t first : {0u, 1u}) {
    plan_ = MakePlan({0, 2}, 4);
    TieThirdBlock(&plan_);
    Open(1);
    for (uint64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(Emit(step, 0, 0, 1, first).ok());
      ASSERT_TRUE(Emit(step, 0, 1, 2, first).ok());
      // One use is out, the other one still needs the weights.
      EXPECT_TRUE(store_->Await(0, step, absl::ZeroDuration()).ok());
      ASSERT_TRUE(Emit(step, 0, 0, 10, 1 - first).ok());
      EXPECT_TRUE(store_->Await(0, step, absl::ZeroDuration()).ok());
      ASSERT_TRUE(Emit(step, 0, 1, 20, 1 - first).ok());
      EXPECT_EQ(store_->Await(0, step, absl::ZeroDuration()).status().code(),
                absl::StatusCode::kInternal);
      // The uses are summed apart.
      const std::vector<Sent> sent = link_.TakeSent();
      ASSERT_EQ(sent.size(), 2);
      EXPECT_EQ(sent[0].use, first);
      EXPECT_EQ(sent[0].sum.data()[0], 3);
      EXPECT_EQ(sent[1].use, 1 - first);
      EXPECT_EQ(sent[1].sum.data()[0], 30);
      for (uint32_t share = 0; share < 2; ++share) ASSERT_TRUE(Emit(step, 1, share, 1).ok());
      link_.TakeSent();
      Land(step + 1);
    }
  }
}

TEST_F(GradientOutboxTest, HasOnlyTheUsesOfItsWorker) {
  plan_ = MakePlan({0, 2}, 2);
  TieThirdBlock(&plan_);
  // The third block is on another worker of the pipeline.
  plan_.set_ranks(2);
  plan_.mutable_stage(0)->set_block_count(2);
  plan_.add_stage()->set_first_block(2);
  plan_.mutable_stage(1)->set_block_count(1);
  *plan_.add_worker() = plan_.worker(0);
  plan_.mutable_worker(1)->set_rank(1);
  Open(1);
  EXPECT_TRUE(outbox_->Take(0, 0).ok());
  EXPECT_EQ(outbox_->Take(0, 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(outbox_->Take(2, 0).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(Emit(0, 0, 0, 1).ok());
  ASSERT_TRUE(Emit(0, 0, 1, 1).ok());
  // The only use here: it waits for nobody.
  EXPECT_EQ(store_->Await(0, 0, absl::ZeroDuration()).status().code(), absl::StatusCode::kInternal);
  const auto last = GradientOutbox::Create(plan_, 1, 1);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE((*last)->Take(0, 1).ok());
  EXPECT_FALSE((*last)->Take(0, 0).ok());
  EXPECT_FALSE((*last)->Take(1, 0).ok());
  EXPECT_EQ((*last)->Emit({0, 1, 0, 0, {}}, store_.get(), &link_).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GradientOutboxCreateTest, RefusesPlansThatContradictThemselves) {
  v1::Plan plan = MakePlan({0, 1}, 1);
  plan.mutable_stage(0)->set_block_count(1);
  EXPECT_EQ(GradientOutbox::Create(plan, 0, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GradientOutboxTest, HandsOnTheErrorsOfMergeAndLink) {
  Make({0, 2}, 4, 1);
  EXPECT_EQ(Emit(0, 0, 3, 1).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(Emit(0, 0, 0, 1).ok());
  EXPECT_EQ(Emit(0, 0, 0, 1).code(), absl::StatusCode::kAlreadyExists);
  link_.Refuse(absl::FailedPreconditionError("closed"));
  EXPECT_EQ(Emit(0, 0, 1, 1).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(GradientOutboxTest, LanesOnManyThreadsGiveTheSameSum) {
  Make({0, 8}, 8, 4);
  for (uint64_t step = 0; step < 50; ++step) {
    std::vector<std::thread> lanes;
    for (uint32_t lane = 0; lane < 4; ++lane) {
      lanes.emplace_back([this, step, lane] {
        for (uint32_t share = 2 * lane; share < 2 * lane + 2; ++share) {
          EXPECT_TRUE(Emit(step, 1, share, 1.0f / static_cast<float>(share + 3)).ok());
          EXPECT_TRUE(Emit(step, 0, share, 1).ok());
        }
      });
    }
    for (std::thread& lane : lanes) lane.join();
    std::vector<float> leaf;
    for (uint32_t share = 0; share < 8; ++share) {
      leaf.push_back(1.0f / static_cast<float>(share + 3));
    }
    const float expected =
        ((leaf[0] + leaf[1]) + (leaf[2] + leaf[3])) + ((leaf[4] + leaf[5]) + (leaf[6] + leaf[7]));
    for (const Sent& sent : link_.TakeSent()) {
      EXPECT_EQ(sent.span, (ShareSpan{0, 8}));
      EXPECT_EQ(sent.samples, 16);
      EXPECT_EQ(sent.sum.data()[0], sent.segment == 1 ? expected : 8.0f);
    }
    Land(step + 1);
  }
}

}  // namespace
}  // namespace sangam
