#include "server/core/step_tally.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/plan/page_map.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

// Two segments of 25 and 4 elements in pages of 10; parameters 0 (18 elements), 1 (7) and 2 (4).
v1::Plan MakePlan(uint32_t servers) {
  v1::Plan plan;
  plan.set_job(5);
  plan.set_generation(2);
  plan.set_page_elements(10);
  for (uint32_t s = 0; s < servers; ++s) plan.add_server();
  const std::vector<std::vector<uint64_t>> segments = {{18, 7}, {4}};
  uint32_t index = 0;
  uint32_t page = 0;
  for (const std::vector<uint64_t>& counts : segments) {
    v1::SegmentLayout* segment = plan.mutable_layout()->add_segment();
    for (const uint64_t count : counts) {
      v1::ParameterLayout* parameter = segment->add_parameter();
      parameter->set_offset(segment->element_count());
      parameter->set_element_count(count);
      parameter->set_parameter_index(index++);
      segment->set_element_count(segment->element_count() + count);
    }
    v1::SegmentPages* pages = plan.add_segment_pages();
    for (uint64_t p = 0; p < NumPages(segment->element_count(), 10); ++p) {
      pages->add_server(page++ % servers);
    }
  }
  return plan;
}

StepTally MakeTally(const v1::Plan& plan, StepTally::Rounds rounds = StepTally::Rounds::kTwo) {
  return StepTally(plan, *PageMap::Create(plan), rounds);
}

// The pages of the plan and the number of values that each votes with on round 1.
struct Page {
  uint32_t segment;
  uint32_t page;
  int values;
};
const std::vector<Page> kPages = {{0, 0, 2}, {0, 1, 4}, {0, 2, 2}, {1, 0, 2}};

v1::StepVotes Vote(const v1::Plan& plan, uint64_t step, uint32_t round, const Page& page,
                   const std::vector<double>& values, const std::string& fault = "") {
  v1::StepVotes votes;
  votes.set_job(plan.job());
  votes.set_generation(plan.generation());
  votes.set_step(step);
  votes.set_round(round);
  votes.set_server(
      plan.segment_pages(static_cast<int>(page.segment)).server(static_cast<int>(page.page)));
  v1::PageVote* vote = votes.add_page();
  vote->set_segment(page.segment);
  vote->set_page(page.page);
  vote->mutable_value()->Assign(values.begin(), values.end());
  vote->set_fault(fault);
  return votes;
}

// Adds and expects success.
StepTally::Answer Add(StepTally* tally, const v1::StepVotes& votes) {
  const absl::StatusOr<StepTally::Answer> answer = tally->Add(votes);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? *answer : StepTally::Answer();
}

// Numbers whose sum depends on the order.
std::vector<double> Values(size_t count, std::mt19937* random) {
  std::vector<double> values(count);
  for (double& value : values)
    value = std::ldexp(static_cast<double>((*random)() % 1000 + 1),
                       static_cast<int>((*random)() % 120));
  return values;
}

TEST(StepTallyTest, TheSumHasTheSameBitsWhateverTheOrderAndTheServers) {
  std::mt19937 random(3);
  for (uint32_t servers : {1u, 3u}) {
    const v1::Plan plan = MakePlan(servers);
    StepTally tally = MakeTally(plan);
    for (uint64_t step = 0; step < 50; ++step) {
      std::mt19937 numbers(static_cast<uint32_t>(step));
      double expected = 0;
      std::vector<v1::StepVotes> votes;
      for (const Page& page : kPages) {
        const std::vector<double> value = Values(1, &numbers);
        expected += value[0];
        votes.push_back(Vote(plan, step, 0, page, value));
        votes.push_back(votes.back());  // twice
      }
      std::shuffle(votes.begin(), votes.end(), random);
      int news = 0;
      for (const v1::StepVotes& vote : votes) {
        const StepTally::Answer answer = Add(&tally, vote);
        news += answer.news ? 1 : 0;
        if (!answer.decision.has_value()) continue;
        EXPECT_EQ(answer.decision->step(), step);
        EXPECT_EQ(answer.decision->round(), 0u);
        ASSERT_EQ(answer.decision->sum_size(), 1);
        EXPECT_EQ(answer.decision->sum(0), expected);
      }
      EXPECT_EQ(news, 1);
    }
  }
}

TEST(StepTallyTest, RoundOneAddsUpByParameter) {
  const v1::Plan plan = MakePlan(2);
  StepTally tally = MakeTally(plan);
  EXPECT_FALSE(Add(&tally, Vote(plan, 0, 1, {0, 1, 4}, {4, 8, 16, 32})).decision.has_value());
  EXPECT_FALSE(Add(&tally, Vote(plan, 0, 1, {1, 0, 2}, {64, 128})).decision.has_value());
  EXPECT_FALSE(Add(&tally, Vote(plan, 0, 1, {0, 0, 2}, {1, 2})).decision.has_value());
  const StepTally::Answer answer = Add(&tally, Vote(plan, 0, 1, {0, 2, 2}, {256, 512}));
  ASSERT_TRUE(answer.decision.has_value());
  const std::vector<double> sums(answer.decision->sum().begin(), answer.decision->sum().end());
  EXPECT_EQ(sums, (std::vector<double>{5, 10, 272, 544, 64, 128}));
}

TEST(StepTallyTest, FaultsAreNamedInTheOrderOfPagesOnceEachAndNotAll) {
  const v1::Plan plan = MakePlan(1);
  StepTally tally = MakeTally(plan);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Add(&tally, Vote(plan, 0, 0, {1, 0, 2}, {kInfinity}, "b"));
  Add(&tally, Vote(plan, 0, 0, {0, 2, 2}, {kInfinity}, "a"));
  Add(&tally, Vote(plan, 0, 0, {0, 1, 4}, {1}));
  const StepTally::Answer answer = Add(&tally, Vote(plan, 0, 0, {0, 0, 2}, {kInfinity}, "a"));
  ASSERT_TRUE(answer.decision.has_value());
  EXPECT_FALSE(std::isfinite(answer.decision->sum(0)));
  ASSERT_EQ(answer.decision->fault_size(), 2);
  EXPECT_EQ(answer.decision->fault(0), "a");
  EXPECT_EQ(answer.decision->fault(1), "b");
}

void VoteAll(StepTally* tally, const v1::Plan& plan, uint64_t step) {
  for (const Page& page : kPages) Add(tally, Vote(plan, step, 0, page, {1}));
}

TEST(StepTallyTest, LateVotesAreAnsweredForTheStepAndTheOneBefore) {
  const v1::Plan plan = MakePlan(1);
  StepTally tally = MakeTally(plan, StepTally::Rounds::kOne);
  for (uint64_t step = 0; step < 3; ++step) VoteAll(&tally, plan, step);
  for (uint64_t step = 1; step < 3; ++step) {
    const StepTally::Answer again = Add(&tally, Vote(plan, step, 0, kPages[1], {7}));
    ASSERT_TRUE(again.decision.has_value());
    EXPECT_EQ(again.decision->sum(0), 4);
    EXPECT_FALSE(again.news);
  }
  EXPECT_FALSE(Add(&tally, Vote(plan, 0, 0, kPages[1], {7})).decision.has_value());
}

TEST(StepTallyTest, OnlyVotesOfItsGenerationCount) {
  const v1::Plan plan = MakePlan(1);
  StepTally tally = MakeTally(plan);
  for (size_t p = 0; p + 1 < kPages.size(); ++p) Add(&tally, Vote(plan, 7, 0, kPages[p], {1}));
  v1::Plan other = plan;
  other.set_generation(1);
  EXPECT_EQ(tally.Add(Vote(other, 7, 0, kPages.back(), {1})).status().code(),
            absl::StatusCode::kAborted);
  other.set_generation(3);
  EXPECT_EQ(tally.Add(Vote(other, 7, 0, kPages.back(), {1})).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Add(&tally, Vote(plan, 7, 0, kPages.back(), {1})).decision.has_value());
}

TEST(StepTallyTest, RefusesVotesThatDoNotFitThePlan) {
  const v1::Plan plan = MakePlan(2);
  StepTally tally = MakeTally(plan);
  const auto expect_refused = [&](v1::StepVotes votes, const std::string& part) {
    const absl::Status status = tally.Add(votes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find(part), std::string::npos) << status << " lacks " << part;
  };
  v1::StepVotes good = Vote(plan, 0, 0, kPages[0], {1});
  v1::StepVotes bad = good;
  bad.set_job(6);
  expect_refused(bad, "job: found votes of 6, expected 5");
  bad = good;
  bad.set_round(2);
  expect_refused(bad, "round: found 2, expected less than 2");
  bad = good;
  bad.mutable_page(0)->set_segment(2);
  expect_refused(bad, "page 0 of segment 2");
  bad = good;
  bad.mutable_page(0)->set_segment(UINT32_MAX);
  expect_refused(bad, "does not have");
  bad = good;
  bad.mutable_page(0)->set_page(3);
  expect_refused(bad, "page 3 of segment 0");
  bad = good;
  bad.set_server(1);
  expect_refused(bad, "server: found a vote of page 0 of segment 0 from server 1");
  expect_refused(Vote(plan, 0, 0, kPages[0], {1, 2}), "value: found 2");
  expect_refused(Vote(plan, 0, 1, kPages[1], {1, 2}), "expected 4");
  Add(&tally, good);
  expect_refused(Vote(plan, 2, 0, kPages[0], {1}), "step: found votes of 2, expected at most 1");
}

}  // namespace
}  // namespace sangam
