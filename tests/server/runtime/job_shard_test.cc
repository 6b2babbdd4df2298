#include "server/runtime/job_shard.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/memory_budget.h"
#include "common/model/initializer.h"
#include "common/plan/span.h"
#include "common/tensor/slices.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/shard_layout.h"
#include "server/runtime/parameter_shard.h"
#include "tests/server/core/naive_merge.h"
#include "tests/server/runtime/shard_fixture.h"

namespace sangam {
namespace {

using Steps = std::vector<uint64_t>;

constexpr absl::Duration kLong = absl::Seconds(60);

// A shard of a job that runs.
std::shared_ptr<JobShard> MakeShard(const v1::Assignment& assignment, const std::string& server) {
  std::shared_ptr<JobShard> shard =
      *JobShard::Create(assignment, *LayOutShard(assignment, server), {});
  EXPECT_TRUE(shard->Run(assignment).ok());
  return shard;
}

void ExpectStatus(const absl::Status& status, absl::StatusCode code, const std::string& part) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(status.message().find(part), std::string::npos) << status << " lacks " << part;
}

// A whole gradient of one page, `value` everywhere, of one sample.
absl::Status Push(ParameterShard* shard, const v1::Plan& plan, const PageName& page, uint64_t step,
                  float value = 1) {
  return shard->AddGradient(GradientHeader(plan, page, step, {0, plan.shares()}, 1),
                            OnePiece(std::vector<float>(page.element_count, value)));
}

TEST(JobShardTest, BeginsWithTheInitialWeightsByAddress) {
  const v1::Assignment job = SmallJob(5, 2, {"a", "b"});
  for (const std::string server : {"a", "b"}) {
    const std::vector<PageWeights> all = MakeShard(job, server)->ReadWeights();
    ASSERT_EQ(all.size(), 2u);
    for (const PageWeights& weights : all) {
      const v1::FrameHeader& header = weights.header;
      std::vector<float> expected(header.element_count());
      FillInitialWeights(job.plan().layout().segment(static_cast<int>(header.segment())), 11,
                         header.first_element(), header.element_count(), expected.data());
      EXPECT_TRUE(SameBits(FloatsOf(weights.elements), expected));
      EXPECT_EQ(header.job(), 5u);
      EXPECT_EQ(header.generation(), 1u);
      EXPECT_EQ(header.step(), 0u);
      EXPECT_EQ(header.kind(), v1::FRAME_KIND_WEIGHTS);
    }
  }
}

// The budget of the server is full: what the plan makes it park is on top.
TEST(JobShardTest, WhatThePlanParksHasItsRoom) {
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  MemoryBudget budget(0);
  JobShard::Environment environment;
  environment.budget = &budget;
  auto shard = *JobShard::Create(job, *LayOutShard(job, "a"), environment);
  ASSERT_TRUE(shard->Run(job).ok());
  EXPECT_EQ(budget.planned(), 2 * StagingBytes(job.plan(), *LayOutShard(job, "a")));
  for (uint64_t step = 0; step < 50; ++step) {
    for (const PageName& page : SmallJobPages()) {
      const absl::Status pushed = Push(shard.get(), job.plan(), page, step);
      ASSERT_TRUE(pushed.ok()) << pushed;
    }
  }
  EXPECT_EQ(budget.used(), 0u);
  shard->Reduce();
  EXPECT_EQ(budget.planned(), 0u);
}

TEST(JobShardTest, AcceptsTheWorkersOfThePlan) {
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  const auto shard = MakeShard(job, "a");
  EXPECT_TRUE(shard->CheckHello(HelloHeader(job.plan()), Hello(job.plan(), 0)).ok());
  v1::FrameHeader header = HelloHeader(job.plan());
  header.set_source(1);
  EXPECT_TRUE(shard->CheckHello(header, Hello(job.plan(), 1)).ok());
}

TEST(JobShardTest, RefusesOtherHellos) {
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  const v1::Plan& plan = job.plan();
  const auto shard = MakeShard(job, "a");
  const v1::FrameHeader good = HelloHeader(plan);

  v1::StreamHello hello = Hello(plan, 0);
  hello.set_protocol_version(99);
  ExpectStatus(shard->CheckHello(good, hello), absl::StatusCode::kFailedPrecondition, "has 99");
  hello = Hello(plan, 0);
  hello.set_schema_hash(1);
  ExpectStatus(shard->CheckHello(good, hello), absl::StatusCode::kFailedPrecondition, "4711");
  hello = Hello(plan, 0);
  hello.set_incarnation(99);
  ExpectStatus(shard->CheckHello(good, hello), absl::StatusCode::kAborted, "found 99");
  ExpectStatus(shard->CheckHello(good, Hello(plan, 1)), absl::StatusCode::kInvalidArgument, "'w1'");

  v1::FrameHeader header = good;
  header.set_job(6);
  ExpectStatus(shard->CheckHello(header, Hello(plan, 0)), absl::StatusCode::kInvalidArgument,
               "found 6");
  header = good;
  header.set_source(2);
  ExpectStatus(shard->CheckHello(header, Hello(plan, 0)), absl::StatusCode::kInvalidArgument,
               "source: found 2");
  header = good;
  header.set_generation(0);
  ExpectStatus(shard->CheckHello(header, Hello(plan, 0)), absl::StatusCode::kAborted, "generation");
  header.set_generation(2);
  ExpectStatus(shard->CheckHello(header, Hello(plan, 0)), absl::StatusCode::kFailedPrecondition,
               "generation");
}

TEST(JobShardTest, SubscriptionMayCoverPagesOfOtherServers) {
  const v1::Assignment job = SmallJob(5, 1, {"a", "b"});
  const auto a = MakeShard(job, "a");
  const auto b = MakeShard(job, "b");
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(a->Subscribe(SubscribeHeader(job.plan(), 0, 0, 25, 0), sink).ok());
  ASSERT_EQ(sink->sent().size(), 2u);
  EXPECT_EQ(sink->Steps(0, 0), Steps{0});
  EXPECT_EQ(sink->Steps(0, 20), Steps{0});
  ASSERT_TRUE(b->Subscribe(SubscribeHeader(job.plan(), 0, 10, 15, 0), sink).ok());
  EXPECT_EQ(sink->Steps(0, 10), Steps{0});
  EXPECT_EQ(sink->sent().size(), 3u);
}

TEST(JobShardTest, RefusesSubscriptionsThatAreNotWholePages) {
  const v1::Assignment job = SmallJob(5, 1, {"a"});
  const auto shard = MakeShard(job, "a");
  const auto sink = std::make_shared<RecordingSink>();
  const auto refused = [&](uint32_t segment, uint64_t first, uint64_t count, const char* part) {
    ExpectStatus(shard->Subscribe(SubscribeHeader(job.plan(), segment, first, count, 0), sink),
                 absl::StatusCode::kInvalidArgument, part);
  };
  refused(2, 0, 10, "segment: found 2");
  refused(0, 5, 10, "found 5");
  refused(0, 30, 10, "found 30");
  refused(0, 0, 0, "element_count");
  refused(0, 0, 15, "found 15");
  refused(0, 0, 26, "found 26");
  refused(0, 10, UINT64_MAX, "element_count");
  v1::FrameHeader header = SubscribeHeader(job.plan(), 0, 0, 10, 0);
  header.set_generation(0);
  ExpectStatus(shard->Subscribe(header, sink), absl::StatusCode::kAborted, "generation");
  EXPECT_TRUE(sink->sent().empty());
}

TEST(JobShardTest, UpdateGoesToTheSubscribersOfItsPageOnly) {
  const v1::Assignment job = SmallJob(5, 1, {"a"});
  const auto shard = MakeShard(job, "a");
  const auto sink = std::make_shared<RecordingSink>();
  const auto gone = std::make_shared<RecordingSink>();
  ASSERT_TRUE(shard->Subscribe(SubscribeHeader(job.plan(), 0, 0, 10, 0), sink).ok());
  ASSERT_TRUE(shard->Subscribe(SubscribeHeader(job.plan(), 0, 0, 10, 0), gone).ok());
  shard->Unsubscribe(gone.get());
  ASSERT_TRUE(Push(shard.get(), job.plan(), {0, 0, 10}, 0).ok());
  ASSERT_TRUE(Push(shard.get(), job.plan(), {1, 0, 4}, 0).ok());
  EXPECT_EQ(sink->Steps(0, 0), (Steps{0, 1}));
  EXPECT_EQ(sink->sent().size(), 2u);
  EXPECT_EQ(gone->sent().size(), 1u);
}

TEST(JobShardTest, RefusesMalformedGradients) {
  const v1::Assignment job = SmallJob(5, 2, {"a", "b"});
  const auto shard = MakeShard(job, "a");
  const v1::FrameHeader good = GradientHeader(job.plan(), {0, 0, 10}, 0, {0, 2}, 1);
  const SlicePayload elements = OnePiece(std::vector<float>(10, 1));
  const auto refused = [&](const v1::FrameHeader& header, absl::StatusCode code, const char* part) {
    ExpectStatus(shard->AddGradient(header, elements), code, part);
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  v1::FrameHeader header = good;
  header.set_job(6);
  refused(header, kInvalid, "job: found 6");
  header = good;
  header.set_encoding(v1::ENCODING_UNSPECIFIED);
  refused(header, kInvalid, "encoding");
  header = good;
  header.set_segment(9);
  refused(header, kInvalid, "segment: found 9");
  header = good;
  header.set_first_element(7);
  refused(header, kInvalid, "found 7");
  header = good;
  header.set_first_element(1000);
  refused(header, kInvalid, "found 1000");
  header = good;
  header.set_element_count(9);
  refused(header, kInvalid, "found 9");
  header = good;
  header.set_first_element(10);  // lies on b
  refused(header, kInvalid, "lies on server 1");
  header = good;
  header.set_span_end(3);
  refused(header, kInvalid, "[0,3)");
  ExpectStatus(shard->AddGradient(good, OnePiece({1})), kInvalid, "payload");
  header = good;
  header.set_generation(0);
  refused(header, absl::StatusCode::kAborted, "generation");
  header = good;
  header.set_step(1);
  refused(header, absl::StatusCode::kFailedPrecondition, "step: found 1");
  // After all of that the shard works as if nothing had been sent.
  EXPECT_TRUE(shard->AddGradient(good, elements).ok());
  EXPECT_EQ(shard->ReadWeights()[0].header.step(), 1u);
}

TEST(JobShardTest, ATiedSegmentWaitsForTheGradientsOfEveryUse) {
  v1::Assignment job = SmallJob(5, 1, {"a"});
  v1::SegmentLayout* tied = job.mutable_plan()->mutable_layout()->mutable_segment(1);
  tied->add_use(1);
  tied->add_use(3);
  const auto shard = MakeShard(job, "a");
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(shard->Subscribe(SubscribeHeader(job.plan(), 1, 0, 4, 1), sink).ok());
  v1::FrameHeader header = GradientHeader(job.plan(), {1, 0, 4}, 0, {0, 1}, 1);
  header.set_use(2);
  ExpectStatus(shard->AddGradient(header, OnePiece({1, 1, 1, 1})),
               absl::StatusCode::kInvalidArgument, "use: found 2, expected less than 2");
  header.set_use(1);
  ASSERT_TRUE(shard->AddGradient(header, OnePiece({1, 1, 1, 1})).ok());
  EXPECT_TRUE(sink->sent().empty());
  header.set_use(0);
  ASSERT_TRUE(shard->AddGradient(header, OnePiece({1, 1, 1, 1})).ok());
  EXPECT_EQ(sink->Steps(1, 0), Steps{1});
}

TEST(JobShardTest, CountsIgnoredGradientsOverItsPages) {
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  const auto shard = MakeShard(job, "a");
  for (const PageName& page : SmallJobPages()) {
    const SlicePayload elements = OnePiece(std::vector<float>(page.element_count, 1));
    const v1::FrameHeader half = GradientHeader(job.plan(), page, 0, {0, 1}, 1);
    ASSERT_TRUE(shard->AddGradient(half, elements).ok());
    ASSERT_TRUE(shard->AddGradient(half, elements).ok());
  }
  ASSERT_TRUE(Push(shard.get(), job.plan(), {1, 0, 4}, 0).ok());
  ASSERT_TRUE(Push(shard.get(), job.plan(), {1, 0, 4}, 0).ok());
  EXPECT_EQ(shard->ignored().covered, 4u);
  EXPECT_EQ(shard->ignored().finished, 1u);
}

TEST(JobShardTest, DroppedShardRefusesEverythingAndLetsGoOfSinks) {
  const v1::Assignment job = SmallJob(5, 1, {"a"});
  const auto shard = MakeShard(job, "a");
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(shard->Subscribe(SubscribeHeader(job.plan(), 0, 0, 25, 0), sink).ok());
  shard->Drop();
  EXPECT_EQ(sink.use_count(), 1);
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  ExpectStatus(shard->CheckHello(HelloHeader(job.plan()), Hello(job.plan(), 0)), kNotFound,
               "job 5");
  ExpectStatus(shard->Subscribe(SubscribeHeader(job.plan(), 0, 0, 25, 0), sink), kNotFound,
               "job 5");
  ExpectStatus(Push(shard.get(), job.plan(), {0, 0, 10}, 0), kNotFound, "job 5");
}

TEST(JobShardTest, ADroppedShardLetsGoOfWhatIsParkedBeforeItsPlanEnds) {
  const v1::Assignment job = SmallJob(5, 2, {"a"});
  MemoryBudget budget(0);
  JobShard::Environment environment;
  environment.budget = &budget;
  const auto shard = *JobShard::Create(job, *LayOutShard(job, "a"), environment);
  ASSERT_TRUE(shard->Run(job).ok());
  std::weak_ptr<const void> parked;
  {
    const SlicePayload half = OnePiece(std::vector<float>(10, 1));
    parked = half.owner();
    ASSERT_TRUE(
        shard->AddGradient(GradientHeader(job.plan(), {0, 0, 10}, 0, {0, 1}, 1), half).ok());
  }
  ASSERT_FALSE(parked.expired());
  int ends = 0;
  budget.Observe([&](uint64_t bytes) {
    if (bytes > 0) return;
    ++ends;
    EXPECT_TRUE(parked.expired()) << "the quota shrinks under what is parked";
  });
  shard->Drop();
  EXPECT_EQ(ends, 1);
  budget.Observe(nullptr);
}

TEST(JobShardTest, ReducedShardKeepsTheLastWeightsForReaders) {
  const v1::Assignment job = SmallJob(5, 1, {"a"});
  const auto shard = MakeShard(job, "a");
  EXPECT_EQ(shard->memory_bytes(), 29u * 3 * 4);
  for (const PageName& page : SmallJobPages()) {
    ASSERT_TRUE(Push(shard.get(), job.plan(), page, 0).ok());
  }
  const std::vector<PageWeights> before = shard->ReadWeights();
  shard->Reduce();
  EXPECT_EQ(shard->memory_bytes(), 29u * 4);
  const std::vector<PageWeights> after = shard->ReadWeights();
  ASSERT_EQ(after.size(), 4u);
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].header.step(), 1u);
    EXPECT_TRUE(SameBits(FloatsOf(after[i].elements), FloatsOf(before[i].elements)));
  }
  ExpectStatus(Push(shard.get(), job.plan(), {0, 0, 10}, 1), absl::StatusCode::kFailedPrecondition,
               "ended");
}

// Gradients that depend on weights and share, so that a wrong step or a lost share shows.
std::vector<float> GradientOf(const std::vector<float>& weights, uint32_t share) {
  std::vector<float> gradient(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    gradient[i] = weights[i] * (0.3f + static_cast<float>(share)) - 0.01f * static_cast<float>(i);
  }
  return gradient;
}

// Trains SmallJob on `workers` threads (worker i has an even part of the shares) and `servers`
// servers and returns the weights by (segment, first element).
std::map<std::pair<uint32_t, uint64_t>, std::vector<float>> Train(uint32_t workers,
                                                                  uint32_t servers,
                                                                  uint64_t steps) {
  constexpr uint32_t kShares = 6;
  std::vector<std::string> names;
  for (uint32_t s = 0; s < servers; ++s)
    names.push_back(std::string(1, static_cast<char>('a' + s)));
  const v1::Assignment job = SmallJob(5, kShares, names);
  std::vector<std::shared_ptr<JobShard>> shards;
  for (const std::string& name : names) shards.push_back(MakeShard(job, name));
  std::vector<std::thread> threads;
  for (uint32_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      const auto sink = std::make_shared<RecordingSink>();
      for (const auto& shard : shards) {
        EXPECT_TRUE(shard->Subscribe(SubscribeHeader(job.plan(), 0, 0, 25, 0), sink).ok());
        EXPECT_TRUE(shard->Subscribe(SubscribeHeader(job.plan(), 1, 0, 4, 0), sink).ok());
      }
      const ShareSpan mine = {kShares * worker / workers, kShares * (worker + 1) / workers};
      for (uint64_t step = 0; step < steps; ++step) {
        uint32_t number = 0;
        for (const PageName& page : SmallJobPages()) {
          const std::vector<float> w = sink->Await(page.segment, page.first_element, step, kLong);
          ASSERT_EQ(w.size(), page.element_count) << "step " << step << " did not come";
          std::vector<std::vector<float>> gradients;
          for (uint32_t s = 0; s < kShares; ++s) gradients.push_back(GradientOf(w, s));
          for (const ShareSpan span : MaximalSpans(mine, kShares)) {
            EXPECT_TRUE(
                shards[number % servers]
                    ->AddGradient(GradientHeader(job.plan(), page, step, span, 3 * span.size()),
                                  OnePiece(NaiveSum(gradients, span)))
                    .ok());
          }
          ++number;
        }
      }
      for (const PageName& page : SmallJobPages()) {
        EXPECT_FALSE(sink->Await(page.segment, page.first_element, steps, kLong).empty());
      }
      for (const auto& shard : shards) shard->Unsubscribe(sink.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<std::pair<uint32_t, uint64_t>, std::vector<float>> result;
  for (const auto& shard : shards) {
    for (const PageWeights& weights : shard->ReadWeights()) {
      EXPECT_EQ(weights.header.step(), steps);
      result[{weights.header.segment(), weights.header.first_element()}] =
          FloatsOf(weights.elements);
    }
  }
  return result;
}

TEST(JobShardTest, WorkersAndServersDoNotChangeABit) {
  const auto one = Train(1, 1, 50);
  ASSERT_EQ(one.size(), 4u);
  for (uint32_t workers : {1, 2, 3, 5}) {
    for (uint32_t servers : {1, 2, 3}) {
      const auto other = Train(workers, servers, 50);
      ASSERT_EQ(other.size(), 4u);
      for (const auto& [page, weights] : one) {
        EXPECT_TRUE(SameBits(other.at(page), weights)) << workers << " workers " << servers;
      }
    }
  }
}

}  // namespace
}  // namespace sangam
