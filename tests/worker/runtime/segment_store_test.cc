#include "worker/runtime/segment_store.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);

// Block "a" has 5 elements in pages of 2, 2 and 1; block "b" has 2 in one page.
v1::Plan MakePlan() {
  v1::Plan plan;
  plan.set_job(4);
  plan.set_generation(2);
  plan.set_page_elements(2);
  for (int s = 0; s < 2; ++s) {
    v1::BlockLayout* block = plan.mutable_layout()->add_block();
    block->set_name(s == 0 ? "a" : "b");
    block->set_segment(s);
    v1::SegmentLayout* segment = plan.mutable_layout()->add_segment();
    segment->set_block(static_cast<uint32_t>(s));
    segment->set_element_count(s == 0 ? 5 : 2);
    v1::SegmentPages* pages = plan.add_segment_pages();
    for (int p = 0; p < (s == 0 ? 3 : 1); ++p) pages->add_server(static_cast<uint32_t>(p % 2));
    v1::ServerPlan* server = plan.add_server();
    server->set_name(s == 0 ? "north" : "south");
    server->set_address("10.0.0.1:7070");
  }
  return plan;
}

v1::FrameHeader Header(uint32_t segment, uint32_t page, uint64_t step) {
  v1::FrameHeader header;
  header.set_job(4);
  header.set_generation(2);
  header.set_kind(v1::FRAME_KIND_WEIGHTS);
  header.set_encoding(v1::ENCODING_FP32);
  header.set_segment(segment);
  header.set_first_element(2 * page);
  header.set_element_count(segment == 0 && page == 2 ? 1 : 2);
  header.set_step(step);
  return header;
}

// Weights whose element e of step t is 100 t + e.
SlicePayload Weights(const v1::FrameHeader& header) {
  FloatBuffer buffer = FloatBuffer::Allocate(header.element_count()).value();
  for (size_t e = 0; e < buffer.size(); ++e) {
    buffer.data()[e] = static_cast<float>(100 * header.step() + header.first_element() + e);
  }
  return SlicePayload::FromFloats(buffer, 0, buffer.size());
}

class SegmentStoreTest : public ::testing::Test {
 protected:
  SegmentStoreTest() : store_(SegmentStore::Create(MakePlan(), {0, 1}, 0).value()) {}

  absl::Status Land(uint32_t segment, uint32_t page, uint64_t step) {
    const v1::FrameHeader header = Header(segment, page, step);
    return store_->OnWeights(header, Weights(header));
  }
  void LandAll(uint64_t step) {
    for (uint32_t page = 0; page < 3; ++page) ASSERT_TRUE(Land(0, page, step).ok());
    ASSERT_TRUE(Land(1, 0, step).ok());
  }

  std::unique_ptr<SegmentStore> store_;
};

TEST_F(SegmentStoreTest, ASegmentIsReadyWhenAllItsPagesHaveCome) {
  ASSERT_TRUE(Land(0, 2, 0).ok());
  ASSERT_TRUE(Land(0, 0, 0).ok());
  EXPECT_EQ(store_->Await(0, 0, absl::ZeroDuration()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(Land(0, 1, 0).ok());
  const auto weights = store_->Await(0, 0, absl::ZeroDuration());
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (int e = 0; e < 5; ++e) EXPECT_EQ((*weights)[e], e);
  // The other segment is on its own.
  EXPECT_FALSE(store_->Await(1, 0, absl::ZeroDuration()).ok());
}

TEST_F(SegmentStoreTest, PagesMayArriveInPiecesOfAnyLength) {
  const v1::FrameHeader header = Header(1, 0, 0);
  auto values = std::make_shared<std::vector<float>>(std::vector<float>{3.5f, -1.25f});
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(values->data());
  ASSERT_TRUE(
      store_->OnWeights(header, SlicePayload({{bytes, 3}, {bytes + 3, 4}, {bytes + 7, 1}}, values))
          .ok());
  const float* weights = store_->Await(1, 0, absl::ZeroDuration()).value();
  EXPECT_EQ(weights[0], 3.5f);
  EXPECT_EQ(weights[1], -1.25f);
}

TEST_F(SegmentStoreTest, TheNextStepReplacesTheWeightsInPlace) {
  LandAll(0);
  const float* before = store_->Await(0, 0, kLong).value();
  store_->Expect(0, 1);
  EXPECT_EQ(store_->Await(0, 1, absl::ZeroDuration()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  for (uint32_t page = 0; page < 3; ++page) ASSERT_TRUE(Land(0, page, 1).ok());
  const float* after = store_->Await(0, 1, kLong).value();
  EXPECT_EQ(after, before);
  EXPECT_EQ(after[4], 104);
}

TEST_F(SegmentStoreTest, WeightsThatComeAgainAreIgnored) {
  LandAll(0);
  store_->Expect(0, 1);
  ASSERT_TRUE(Land(0, 0, 1).ok());
  // An older step, and the same step twice: neither is counted.
  ASSERT_TRUE(Land(0, 1, 0).ok());
  ASSERT_TRUE(Land(0, 0, 1).ok());
  ASSERT_TRUE(Land(0, 2, 1).ok());
  EXPECT_FALSE(store_->Await(0, 1, absl::ZeroDuration()).ok());
  ASSERT_TRUE(Land(0, 1, 1).ok());
  EXPECT_EQ(store_->Await(0, 1, kLong).value()[2], 102);
}

TEST_F(SegmentStoreTest, WeightsThatNobodyExpectsAreRefusedWhileTheOldOnesAreInUse) {
  LandAll(0);
  const absl::Status early = Land(0, 0, 1);
  EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(early.message()), HasSubstr("found step 1, expected 0"));
  EXPECT_EQ(store_->Await(0, 0, kLong).value()[0], 0);
}

TEST_F(SegmentStoreTest, AskingForReplacedWeightsIsABugThatIsSeen) {
  LandAll(0);
  store_->Expect(0, 1);
  EXPECT_EQ(store_->Await(0, 0, kLong).status().code(), absl::StatusCode::kInternal);
}

TEST_F(SegmentStoreTest, ChecksEveryFieldOfAFrame) {
  struct Case {
    std::function<void(v1::FrameHeader*)> change;
    absl::StatusCode code;
    std::string words;
  };
  const std::vector<Case> cases = {
      {[](auto* h) { h->set_job(5); }, absl::StatusCode::kAborted, "job 5"},
      {[](auto* h) { h->set_generation(1); }, absl::StatusCode::kAborted, "generation 1"},
      {[](auto* h) { h->set_kind(v1::FRAME_KIND_GRADIENT); }, absl::StatusCode::kInvalidArgument,
       "kind: found 3"},
      {[](auto* h) { h->clear_encoding(); }, absl::StatusCode::kInvalidArgument, "encoding"},
      {[](auto* h) { h->set_segment(2); }, absl::StatusCode::kInvalidArgument, "segment: found 2"},
      {[](auto* h) { h->set_first_element(1); }, absl::StatusCode::kInvalidArgument,
       "first_element"},
      {[](auto* h) { h->set_first_element(6); }, absl::StatusCode::kInvalidArgument,
       "first_element"},
      {[](auto* h) { h->set_first_element(UINT64_MAX - 1); }, absl::StatusCode::kInvalidArgument,
       "first_element"},
      {[](auto* h) { h->set_element_count(3); }, absl::StatusCode::kInvalidArgument,
       "found 3 elements"},
      {[](auto* h) { h->set_step(1); }, absl::StatusCode::kFailedPrecondition, "found step 1"},
  };
  for (const Case& c : cases) {
    v1::FrameHeader header = Header(0, 0, 0);
    const SlicePayload payload = Weights(header);
    c.change(&header);
    const absl::Status status = store_->OnWeights(header, payload);
    EXPECT_EQ(status.code(), c.code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.words));
  }
  // Fewer and more bytes than the header says.
  const v1::FrameHeader header = Header(0, 0, 0);
  EXPECT_EQ(store_->OnWeights(header, Weights(header).Sub(0, 7)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->OnWeights(header, SlicePayload()).code(), absl::StatusCode::kInvalidArgument);
  // None of them left anything behind.
  for (uint32_t page = 0; page < 3; ++page) ASSERT_TRUE(Land(0, page, 0).ok());
  EXPECT_EQ(store_->Await(0, 0, kLong).value()[1], 1);
}

TEST_F(SegmentStoreTest, AStallNamesSegmentPageAndServer) {
  ASSERT_TRUE(Land(0, 0, 0).ok());
  ASSERT_TRUE(Land(0, 2, 0).ok());
  const absl::Status stalled = store_->Await(0, 0, absl::Milliseconds(5)).status();
  EXPECT_EQ(stalled.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(stalled.message()),
              HasSubstr("weights of step 0 of segment 0 (block \"a\"): lacks page 1 from server "
                        "south (10.0.0.1:7070) (1 of 3 pages are missing)"));
}

TEST_F(SegmentStoreTest, AwaitEndsWhenTheLastPageComes) {
  std::thread link([this] { LandAll(0); });
  const auto weights = store_->Await(0, 0, kLong);
  link.join();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ((*weights)[4], 4);
}

TEST_F(SegmentStoreTest, APartIsReadyWhenItsPagesHaveCome) {
  ASSERT_TRUE(Land(0, 1, 0).ok());
  // Elements 2 and 3.
  EXPECT_TRUE(store_->AwaitPart(0, 0, 2, 2, absl::ZeroDuration()).ok());
  EXPECT_EQ(store_->data(0)[3], 3);
  EXPECT_TRUE(store_->AwaitPart(0, 0, 3, 0, absl::ZeroDuration()).ok());
  EXPECT_TRUE(store_->AwaitPart(0, 0, 9, 5, absl::ZeroDuration()).ok());
  for (const uint64_t count : {uint64_t{3}, ~uint64_t{0}}) {
    const absl::Status late = store_->AwaitPart(0, 0, 2, count, absl::ZeroDuration());
    EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << count;
  }
  EXPECT_FALSE(store_->AwaitPart(0, 0, 1, 2, absl::ZeroDuration()).ok());
  // Of the next step nothing is here, though this one's page is.
  LandAll(0);
  store_->Expect(0, 1);
  ASSERT_TRUE(Land(0, 0, 1).ok());
  EXPECT_TRUE(store_->AwaitPart(0, 1, 0, 2, absl::ZeroDuration()).ok());
  EXPECT_FALSE(store_->AwaitPart(0, 1, 2, 2, absl::ZeroDuration()).ok());
  EXPECT_EQ(store_->AwaitPart(0, 0, 2, 2, absl::ZeroDuration()).code(),
            absl::StatusCode::kInternal);
}

TEST_F(SegmentStoreTest, AwaitPartEndsWhenItsLastPageComes) {
  std::thread lander([&] {
    ASSERT_TRUE(Land(0, 2, 0).ok());
    ASSERT_TRUE(Land(0, 1, 0).ok());
  });
  EXPECT_TRUE(store_->AwaitPart(0, 0, 2, 3, kLong).ok());
  lander.join();
}

TEST_F(SegmentStoreTest, AFailureOfTheLinkWakesAllWhoWait) {
  absl::Status found[2];
  std::thread waiting0([&] { found[0] = store_->Await(0, 0, kLong).status(); });
  std::thread waiting1([&] { found[1] = store_->Await(1, 0, kLong).status(); });
  store_->OnLinkFailed(absl::UnavailableError("south is gone"));
  store_->OnLinkFailed(absl::InternalError("later"));
  waiting0.join();
  waiting1.join();
  EXPECT_EQ(found[0], absl::UnavailableError("south is gone"));
  EXPECT_EQ(found[1], absl::UnavailableError("south is gone"));
  EXPECT_EQ(store_->link_failure(), absl::UnavailableError("south is gone"));
}

TEST_F(SegmentStoreTest, StopWakesAllWhoWait) {
  absl::Status found;
  std::thread waiting([&] { found = store_->Await(0, 0, kLong).status(); });
  store_->Stop();
  waiting.join();
  EXPECT_EQ(found.code(), absl::StatusCode::kCancelled);
}

TEST(SegmentStoreCreateTest, RefusesPlansThatContradictThemselves) {
  v1::Plan plan = MakePlan();
  plan.mutable_segment_pages(0)->add_server(0);
  EXPECT_EQ(SegmentStore::Create(plan, {0, 1}, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  plan = MakePlan();
  plan.mutable_layout()->mutable_segment(1)->set_block(9);
  EXPECT_EQ(SegmentStore::Create(plan, {0, 1}, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(SegmentStore::Create(MakePlan(), {0, 2}, 0).status().message()),
              HasSubstr("segment: found 2, expected less than 2"));
}

TEST(SegmentStoreCreateTest, HoldsTheSegmentsThatAreNeededAndNoOther) {
  const auto store = SegmentStore::Create(MakePlan(), {1}, 0).value();
  EXPECT_EQ(store->segment_elements(0), 0u);
  EXPECT_EQ(store->segment_elements(1), 2u);
  v1::FrameHeader header = Header(0, 0, 0);
  const absl::Status other = store->OnWeights(header, Weights(header));
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("found segment 0 (block \"a\"), expected one that this worker needs"));
  EXPECT_EQ(store->Await(0, 0, kLong).status().code(), absl::StatusCode::kInternal);
  header = Header(1, 0, 0);
  ASSERT_TRUE(store->OnWeights(header, Weights(header)).ok());
  EXPECT_EQ(store->Await(1, 0, kLong).value()[1], 1);
}

}  // namespace
}  // namespace sangam
