#include "server/runtime/vote_exchange.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/version.h"
#include "common/plan/page_map.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/parameter_page.h"
#include "server/core/step_rules.h"
#include "server/runtime/vote_link.h"
#include "tests/server/runtime/shard_fixture.h"

namespace sangam {
namespace {

class FakeHost : public VoteExchange::Host {
 public:
  std::vector<ParameterPage::Vote> Votes() const override { return votes; }
  void OnDecision(std::shared_ptr<const v1::StepDecision> decision) override {
    decisions.push_back(std::move(decision));
  }
  void OnSkippedStep(uint64_t, uint64_t step, const std::string& why) override {
    skipped.emplace_back(step, why);
  }
  void OnVotesFailed(uint64_t, const absl::Status& status) override { failures.push_back(status); }

  std::vector<ParameterPage::Vote> votes;
  std::vector<std::shared_ptr<const v1::StepDecision>> decisions;
  std::vector<std::pair<uint64_t, std::string>> skipped;
  std::vector<absl::Status> failures;
};

class FakeSink : public DecisionSink {
 public:
  void Send(std::shared_ptr<const v1::StepDecision> decision) override {
    sent.push_back(std::move(decision));
  }
  std::vector<std::shared_ptr<const v1::StepDecision>> sent;
};

class FakeLink : public VoteLink {
 public:
  void Wake() override { ++wakes; }
  void Close() override { closed = true; }
  int wakes = 0;
  bool closed = false;
};

// Pages 0 and 2 of segment 0 lie on server 0, page 1 and that of segment 1 on server 1.
class VoteExchangeTest : public ::testing::Test {
 protected:
  VoteExchangeTest() {
    StepRules rules;
    rules.votes = true;
    rules.skip_not_finite = true;
    const auto make = [&](uint32_t server, const std::shared_ptr<FakeHost>& host) {
      return std::make_shared<VoteExchange>(
          plan_, *PageMap::Create(plan_), server, rules,
          [this](VoteLinkOptions options, const std::weak_ptr<VoteSource>&) {
            options_ = std::move(options);
            links_.push_back(std::make_shared<FakeLink>());
            if (while_opening_ != nullptr) while_opening_();
            return links_.back();
          },
          host);
    };
    counter_ = make(0, counter_host_);
    source_ = make(1, source_host_);
  }

  ParameterPage::Vote Vote(uint32_t segment, uint32_t page, double value, uint64_t step = 0) {
    ParameterPage::Vote vote;
    vote.generation = plan_.generation();
    vote.step = step;
    vote.vote.set_segment(segment);
    vote.vote.set_page(page);
    vote.vote.add_value(value);
    return vote;
  }

  v1::StepVotes Hello() const {
    v1::StepVotes hello;
    hello.set_job(plan_.job());
    hello.set_generation(plan_.generation());
    hello.set_server(1);
    hello.set_protocol_version(kProtocolVersion);
    hello.set_schema_hash(plan_.schema_hash());
    return hello;
  }

  v1::Plan plan_ = SmallJob(5, 2, {"a", "b"}).plan();
  std::shared_ptr<FakeHost> counter_host_ = std::make_shared<FakeHost>();
  std::shared_ptr<FakeHost> source_host_ = std::make_shared<FakeHost>();
  std::shared_ptr<VoteExchange> counter_;
  std::shared_ptr<VoteExchange> source_;
  std::vector<std::shared_ptr<FakeLink>> links_;
  VoteLinkOptions options_;
  std::function<void()> while_opening_;
};

TEST_F(VoteExchangeTest, VotesOfBothServersMakeADecisionForBoth) {
  const auto sink = std::make_shared<FakeSink>();
  ASSERT_TRUE(counter_->AddVoter(Hello(), sink).ok());
  source_->Add(Vote(0, 1, 4));
  source_->Add(Vote(1, 0, 8));
  const std::optional<v1::StepVotes> votes = source_->NextVotes(1);
  ASSERT_TRUE(votes.has_value());
  EXPECT_EQ(votes->page_size(), 2);
  EXPECT_FALSE(source_->NextVotes(1).has_value());
  counter_->Add(Vote(0, 0, 1));
  ASSERT_TRUE(counter_->AddVotes(*votes, sink).ok());
  EXPECT_TRUE(sink->sent.empty());
  counter_->Add(Vote(0, 2, 2));
  ASSERT_EQ(sink->sent.size(), 1u);
  ASSERT_EQ(counter_host_->decisions.size(), 1u);
  EXPECT_EQ(sink->sent[0]->sum(0), 15);
  EXPECT_TRUE(counter_host_->skipped.empty());
  // Asked again, it answers the one who asks.
  ASSERT_TRUE(counter_->AddVotes(*votes, sink).ok());
  EXPECT_EQ(sink->sent.size(), 2u);
  EXPECT_EQ(counter_host_->decisions.size(), 1u);
  ASSERT_TRUE(source_->OnDecision(*sink->sent[0]).ok());
  EXPECT_EQ(source_host_->decisions.size(), 1u);
  counter_->RemoveVoter(sink.get());
  EXPECT_EQ(sink.use_count(), 1);
}

TEST_F(VoteExchangeTest, ASkippedStepIsToldOnce) {
  ParameterPage::Vote bad = Vote(0, 0, std::numeric_limits<double>::infinity());
  bad.vote.set_fault("worker w1");
  counter_->Add(bad);
  counter_->Add(Vote(0, 2, 2));
  v1::StepVotes votes = Hello();
  for (const auto& [segment, page] : {std::pair<uint32_t, uint32_t>{0, 1}, {1, 0}}) {
    *votes.add_page() = Vote(segment, page, 1).vote;
  }
  const auto sink = std::make_shared<FakeSink>();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(counter_->AddVotes(votes, sink).ok());
  ASSERT_EQ(counter_host_->skipped.size(), 1u);
  EXPECT_EQ(counter_host_->skipped[0].second, "worker w1");
}

TEST_F(VoteExchangeTest, ALinkThatBeginsAnewSendsEverythingAgain) {
  source_->Run();
  ASSERT_EQ(links_.size(), 1u);
  EXPECT_EQ(options_.server, "a");
  EXPECT_EQ(options_.hello.server(), 1u);
  const int wakes = links_[0]->wakes;
  source_->Add(Vote(0, 1, 4));
  EXPECT_EQ(links_[0]->wakes, wakes + 1);
  ASSERT_TRUE(source_->NextVotes(1).has_value());
  source_host_->votes = {Vote(0, 1, 4, 1), Vote(0, 1, 3, 0), Vote(1, 0, 5, 1)};
  source_->SendAgain(1);
  EXPECT_EQ(source_->NextVotes(1)->step(), 0u);
  const v1::StepVotes second = *source_->NextVotes(1);
  EXPECT_EQ(second.step(), 1u);
  EXPECT_EQ(second.page_size(), 2);
  EXPECT_FALSE(source_->NextVotes(1).has_value());
}

// The link has looked for votes and found none before it is known here.
TEST_F(VoteExchangeTest, AVoteWhileTheLinkOpensWakesIt) {
  while_opening_ = [this] {
    EXPECT_FALSE(source_->NextVotes(1).has_value());
    source_->Add(Vote(0, 1, 4));
  };
  source_->Run();
  ASSERT_EQ(links_.size(), 1u);
  EXPECT_EQ(links_[0]->wakes, 1);
  EXPECT_FALSE(links_[0]->closed);
}

TEST_F(VoteExchangeTest, WhatIsOfAnotherGenerationChangesNothing) {
  source_->Run();
  ParameterPage::Vote later = Vote(0, 1, 4);
  later.generation = 2;
  source_->Add(later);
  EXPECT_FALSE(source_->NextVotes(2).has_value());
  EXPECT_FALSE(source_->NextVotes(1).has_value());
  v1::StepDecision decision;
  decision.set_job(5);
  decision.set_generation(2);
  EXPECT_TRUE(source_->OnDecision(decision).ok());
  EXPECT_TRUE(source_host_->decisions.empty());
  source_->OnLinkFailed(2, absl::UnavailableError("of another one"));
  EXPECT_TRUE(source_host_->failures.empty());
  source_->OnLinkFailed(1, absl::UnavailableError("now"));
  EXPECT_EQ(source_host_->failures.size(), 1u);
}

TEST_F(VoteExchangeTest, AnEndedJobTakesNoVotes) {
  source_->Run();
  source_->End();
  EXPECT_TRUE(links_[0]->closed);
  counter_->End();
  EXPECT_EQ(counter_->AddVoter(Hello(), std::make_shared<FakeSink>()).code(),
            absl::StatusCode::kNotFound);
  counter_->Add(Vote(0, 0, 1));
  EXPECT_TRUE(counter_host_->failures.empty());
}

}  // namespace
}  // namespace sangam
