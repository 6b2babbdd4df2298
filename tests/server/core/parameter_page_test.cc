#include "server/core/parameter_page.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/learning_rate.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "proto/parameter_service.pb.h"
#include "server/core/optimizer.h"
#include "tests/server/core/naive_merge.h"

namespace sangam {
namespace {

Optimizer MakeSgd(float learning_rate) {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(learning_rate);
  spec.mutable_sgd();
  return *Optimizer::Create(spec);
}

Optimizer MakeMomentum() {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(0.1f);
  spec.mutable_momentum()->set_momentum(0.9f);
  return *Optimizer::Create(spec);
}

Optimizer MakeAdamW() {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(0.1f);
  spec.mutable_adamw();
  return *Optimizer::Create(spec);
}

FloatBuffer Buffer(const std::vector<float>& values) {
  FloatBuffer buffer = *FloatBuffer::Allocate(values.size());
  std::copy(values.begin(), values.end(), buffer.data());
  return buffer;
}

std::vector<float> Values(const FloatBuffer& buffer) {
  return {buffer.data(), buffer.data() + buffer.size()};
}

ParameterPage MakePage(const Optimizer& optimizer, const std::vector<float>& initial,
                       uint32_t shares, uint32_t uses = 1) {
  ParameterPage::Options options;
  options.segment = 3;
  options.first_element = 1000;
  options.element_count = initial.size();
  options.generation = 2;
  options.shares = shares;
  options.uses = uses;
  ParameterPage page = *ParameterPage::Create(options, optimizer, Buffer(initial));
  v1::OptimizerSpec rate;
  rate.set_learning_rate(optimizer.learning_rate());
  EXPECT_TRUE(page.Begin(*LearningRate::Create(rate, 0)).ok());
  return page;
}

GradientKey Key(uint64_t step, ShareSpan span, uint64_t samples = 1, uint32_t use = 0) {
  return {2, step, span, samples, use};
}

// Adds and expects success; whether something was published.
bool Add(ParameterPage* page, const GradientKey& key, const std::vector<float>& values) {
  const absl::StatusOr<ParameterPage::Effects> effects = page->Add(key, OnePiece(values));
  EXPECT_TRUE(effects.ok()) << effects.status();
  return effects.ok() && effects->publish.has_value();
}

void ExpectError(ParameterPage* page, const GradientKey& key, const std::vector<float>& values,
                 absl::StatusCode code, const std::vector<std::string>& parts) {
  const PageVersion before = page->current();
  const std::vector<float> weights = Values(before.weights);
  const absl::Status status = page->Add(key, OnePiece(values)).status();
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status << " lacks " << part;
  }
  EXPECT_EQ(page->current().step, before.step);
  EXPECT_EQ(page->current().weights.data(), before.weights.data());
  EXPECT_TRUE(SameBits(Values(page->current().weights), weights));
}

TEST(ParameterPageTest, BeginsAtStepZeroWithTheInitialWeights) {
  const ParameterPage page = MakePage(MakeSgd(1), {1, 2}, 1);
  EXPECT_EQ(page.current().step, 0u);
  EXPECT_EQ(Values(page.current().weights), (std::vector<float>{1, 2}));
  EXPECT_FALSE(page.previous().has_value());
}

TEST(ParameterPageTest, PublishesWhenLastSpanArrives) {
  ParameterPage page = MakePage(MakeSgd(1), {10, 20}, 3);
  EXPECT_FALSE(Add(&page, Key(0, {2, 3}, 2), {1, 1}));
  EXPECT_FALSE(Add(&page, Key(0, {0, 1}, 1), {2, 2}));
  const absl::StatusOr<ParameterPage::Effects> effects =
      page.Add(Key(0, {1, 2}, 1), OnePiece({5, 9}));
  ASSERT_TRUE(effects.ok());
  ASSERT_TRUE(effects->publish.has_value());
  EXPECT_EQ(effects->publish->step, 1u);
  EXPECT_EQ(Values(effects->publish->weights), (std::vector<float>{8, 17}));
  EXPECT_EQ(page.current().step, 1u);
}

// Random groupings, orders, duplicates and cuts of the bytes over several steps, against plain
// loops.
TEST(ParameterPageTest, WeightsAreThePlainLoopsWhateverTheArrival) {
  std::mt19937 random(5);
  for (uint32_t shares = 1; shares <= 17; ++shares) {
    for (size_t size : {1, 15, 16, 1023, 1025}) {
      std::vector<float> w = RandomFloats(size, &random);
      std::vector<float> v(size, 0);
      ParameterPage page = MakePage(MakeMomentum(), w, shares);
      uint64_t duplicates = 0;
      for (uint64_t step = 0; step < 3; ++step) {
        const auto gradients = RandomShares(shares, size, &random);
        const std::vector<float> sum = NaiveSum(gradients, {0, shares});
        for (size_t i = 0; i < size; ++i) {
          v[i] = 0.9f * v[i] + sum[i] / static_cast<float>(3 * shares);
          w[i] = w[i] - 0.1f * v[i];
        }
        const std::vector<ShareSpan> spans = RandomGrouping({0, shares}, &random);
        for (size_t k = 0; k < spans.size(); ++k) {
          const SlicePayload payload = RandomPieces(NaiveSum(gradients, spans[k]), &random);
          const GradientKey key = Key(step, spans[k], 3 * spans[k].size());
          ASSERT_TRUE(page.Add(key, payload).ok());
          // Sent again: a duplicate of this step, or, after the last one, of a finished step.
          if (random() % 2 == 0) {
            ASSERT_TRUE(page.Add(key, payload).ok());
            ++duplicates;
          }
        }
        ASSERT_EQ(page.current().step, step + 1);
        ASSERT_TRUE(SameBits(Values(page.current().weights), w))
            << "S=" << shares << " size=" << size << " step=" << step;
      }
      EXPECT_EQ(page.ignored().covered + page.ignored().finished, duplicates);
    }
  }
}

// As above, with the spans of several uses mixed: the sums of the uses add up in their order.
TEST(ParameterPageTest, TheOrderOfUsesDecidesAndNotThatOfArrival) {
  std::mt19937 random(8);
  for (const uint32_t uses : {2u, 3u, 5u}) {
    for (const uint32_t shares : {1u, 2u, 5u, 8u}) {
      for (const size_t size : {1, 1025}) {
        std::vector<float> w = RandomFloats(size, &random);
        ParameterPage page = MakePage(MakeSgd(0.5f), w, shares, uses);
        for (uint64_t step = 0; step < 3; ++step) {
          std::vector<std::pair<GradientKey, std::vector<float>>> frames;
          std::vector<float> total(size);
          for (uint32_t use = 0; use < uses; ++use) {
            const auto gradients = RandomShares(shares, size, &random);
            const std::vector<float> sum = NaiveSum(gradients, {0, shares});
            for (size_t i = 0; i < size; ++i) total[i] = use == 0 ? sum[i] : total[i] + sum[i];
            for (const ShareSpan span : RandomGrouping({0, shares}, &random)) {
              frames.emplace_back(Key(step, span, 3 * span.size(), use), NaiveSum(gradients, span));
            }
          }
          for (size_t i = 0; i < size; ++i) {
            w[i] = w[i] - 0.5f * (total[i] / static_cast<float>(3 * shares));
          }
          std::shuffle(frames.begin(), frames.end(), random);
          for (size_t f = 0; f < frames.size(); ++f) {
            const auto effects = page.Add(frames[f].first, RandomPieces(frames[f].second, &random));
            ASSERT_TRUE(effects.ok()) << effects.status();
            ASSERT_EQ(effects->publish.has_value(), f + 1 == frames.size());
          }
          ASSERT_TRUE(SameBits(Values(page.current().weights), w))
              << "uses=" << uses << " S=" << shares << " size=" << size << " step=" << step;
        }
        EXPECT_EQ(page.ignored().covered, 0u);
      }
    }
  }
}

TEST(ParameterPageTest, UsesAddUpFromTheFirst) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 1, 3);
  EXPECT_FALSE(Add(&page, Key(0, {0, 1}, 1, 2), {3}));
  EXPECT_FALSE(Add(&page, Key(0, {0, 1}, 1, 1), {3}));
  EXPECT_FALSE(Add(&page, Key(0, {0, 1}, 1, 1), {3}));  // again
  EXPECT_EQ(page.ignored().covered, 1u);
  EXPECT_TRUE(Add(&page, Key(0, {0, 1}, 1, 0), {1e8f}));
  // (1e8 + 3) + 3 where neither 3 counts; 3 + 3 would.
  EXPECT_EQ(page.current().weights.data()[0], -1e8f);
}

TEST(ParameterPageTest, SamplesAreThoseOfOneUse) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 2, 2);
  EXPECT_FALSE(Add(&page, Key(0, {0, 2}, 4, 1), {8}));
  EXPECT_FALSE(Add(&page, Key(0, {0, 1}, 1, 0), {2}));
  EXPECT_TRUE(Add(&page, Key(0, {1, 2}, 3, 0), {6}));
  EXPECT_EQ(page.current().weights.data()[0], -4);
}

TEST(ParameterPageTest, RefusesUsesThatDifferInSamplesAndCanDoTheStepAnew) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ParameterPage page = MakePage(MakeSgd(1), {0}, 2, 3);
  Add(&page, Key(0, {0, 2}, 4, 0), {8});
  Add(&page, Key(0, {0, 2}, 4, 1), {8});
  ExpectError(&page, Key(0, {0, 2}, 5, 2), {8}, kInvalid,
              {"segment 3", "step 0", "samples", "found 5", "use 2", "expected 4", "use 0"});
  for (uint32_t use = 0; use < 3; ++use) {
    EXPECT_EQ(Add(&page, Key(0, {0, 2}, 4, use), {8}), use == 2);
  }
  EXPECT_EQ(page.current().weights.data()[0], -6);
}

TEST(ParameterPageTest, RefusesAUseThatTheSegmentDoesNotHave) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ParameterPage one = MakePage(MakeSgd(1), {0}, 1);
  ExpectError(&one, Key(0, {0, 1}, 1, 1), {1}, kInvalid,
              {"segment 3", "use: found 1, expected less than 1"});
  ParameterPage two = MakePage(MakeSgd(1), {0}, 1, 2);
  ExpectError(&two, Key(0, {0, 1}, 1, 2), {1}, kInvalid, {"use: found 2, expected less than 2"});
  ExpectError(&two, Key(0, {0, 1}, 1, UINT32_MAX), {1}, kInvalid, {"use: found 4294967295"});
}

TEST(ParameterPageTest, ANotFiniteGradientIsBlamedOnItsUse) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 2, 2);
  Add(&page, Key(0, {0, 2}, 2, 0), {1});
  Add(&page, Key(0, {0, 1}, 1, 1), {1});
  ExpectError(&page, Key(0, {1, 2}, 1, 1), {std::nanf("")}, absl::StatusCode::kInvalidArgument,
              {"segment 3, use 1, shares [1,2)"});
}

TEST(ParameterPageTest, AWiderSpanReplacesWhatItCovers) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 4);
  EXPECT_FALSE(Add(&page, Key(0, {1, 2}, 1), {2}));
  EXPECT_FALSE(Add(&page, Key(0, {0, 2}, 2), {3}));
  EXPECT_TRUE(Add(&page, Key(0, {2, 4}, 2), {5}));
  EXPECT_EQ(page.current().weights.data()[0], -2);  // (3 + 5) / 4 samples
  EXPECT_EQ(page.ignored().covered, 0u);
}

TEST(ParameterPageTest, DuplicatesAndFinishedStepsChangeNothingAndAreCounted) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 2);
  EXPECT_FALSE(Add(&page, Key(0, {0, 1}), {1}));
  EXPECT_FALSE(Add(&page, Key(0, {0, 1}), {100}));
  EXPECT_EQ(page.ignored().covered, 1u);
  EXPECT_TRUE(Add(&page, Key(0, {1, 2}), {1}));
  EXPECT_FALSE(Add(&page, Key(0, {0, 2}), {100}));
  EXPECT_FALSE(Add(&page, Key(0, {1, 2}), {100}));
  EXPECT_EQ(page.ignored().finished, 2u);
  EXPECT_EQ(page.current().step, 1u);
  EXPECT_EQ(page.current().weights.data()[0], -1);
}

TEST(ParameterPageTest, ASpanWithoutSamplesCounts) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 2);
  EXPECT_FALSE(Add(&page, Key(0, {0, 1}, 0), {0}));
  EXPECT_TRUE(Add(&page, Key(0, {1, 2}, 4), {8}));
  EXPECT_EQ(page.current().weights.data()[0], -2);
}

TEST(ParameterPageTest, KeepsTwoVersionsUntilTheNextGradientIsComplete) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 2);
  Add(&page, Key(0, {0, 2}), {1});
  ASSERT_TRUE(page.previous().has_value());
  EXPECT_EQ(page.previous()->step, 0u);
  EXPECT_EQ(Values(page.previous()->weights), std::vector<float>{0});
  // An incomplete gradient of step 1 lets go of nothing.
  Add(&page, Key(1, {0, 1}), {1});
  EXPECT_EQ(page.previous()->step, 0u);
  Add(&page, Key(1, {1, 2}), {1});
  EXPECT_EQ(page.previous()->step, 1u);
  EXPECT_EQ(Values(page.previous()->weights), std::vector<float>{-1});
  EXPECT_EQ(Values(page.current().weights), std::vector<float>{-2});
}

TEST(ParameterPageTest, TwoBuffersTakeTurns) {
  ParameterPage page = MakePage(MakeSgd(1), {0, 0}, 1);
  const float* const first = page.current().weights.data();
  Add(&page, Key(0, {0, 1}), {1, 1});
  const float* const second = page.current().weights.data();
  EXPECT_NE(first, second);
  for (uint64_t step = 1; step < 6; ++step) {
    Add(&page, Key(step, {0, 1}), {1, 1});
    EXPECT_EQ(page.current().weights.data(), step % 2 == 1 ? first : second);
  }
}

TEST(ParameterPageTest, LateReaderKeepsItsBytes) {
  ParameterPage page = MakePage(MakeAdamW(), std::vector<float>(100, 1), 1);
  const std::vector<float> gradient(100, 0.5f);
  // A reader of step 0 and one of step 1, who do not let go for many steps.
  const FloatBuffer reader0 = page.current().weights;
  Add(&page, Key(0, {0, 1}), gradient);
  const SlicePayload reader1 = SlicePayload::FromFloats(page.current().weights, 0, 100);
  const std::vector<float> step1 = Values(page.current().weights);
  ParameterPage undisturbed = MakePage(MakeAdamW(), std::vector<float>(100, 1), 1);
  Add(&undisturbed, Key(0, {0, 1}), gradient);
  for (uint64_t step = 1; step < 5; ++step) {
    Add(&page, Key(step, {0, 1}), gradient);
    Add(&undisturbed, Key(step, {0, 1}), gradient);
    EXPECT_TRUE(SameBits(Values(page.current().weights), Values(undisturbed.current().weights)));
  }
  EXPECT_EQ(Values(reader0), std::vector<float>(100, 1));
  std::vector<float> read(100);
  reader1.CopyTo(read.data());
  EXPECT_TRUE(SameBits(read, step1));
}

TEST(ParameterPageTest, ParkedSlicesAreHeldUntilTheUpdateAndNoLonger) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 2);
  SlicePayload payload = OnePiece({1});
  const std::weak_ptr<const void> alive = payload.owner();
  ASSERT_TRUE(page.Add(Key(0, {0, 1}), std::move(payload)).ok());
  payload = SlicePayload();
  EXPECT_FALSE(alive.expired());
  Add(&page, Key(0, {1, 2}), {1});
  EXPECT_TRUE(alive.expired());
}

TEST(ParameterPageTest, RefusesMalformedGradients) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ParameterPage page = MakePage(MakeSgd(1), {0, 0}, 6);
  for (ShareSpan span : {ShareSpan{0, 0}, ShareSpan{1, 3}, ShareSpan{4, 8}, ShareSpan{5, 7},
                         ShareSpan{6, 7}, ShareSpan{3, 2}, ShareSpan{0, 5}}) {
    ExpectError(&page, Key(0, span), {1, 1}, kInvalid,
                {"segment 3", "[1000,1002)", ToString(span), "[0,6)"});
  }
  ExpectError(&page, Key(0, {0, 1}), {1}, kInvalid, {"payload", "4 bytes", "expected 8"});
  ExpectError(&page, Key(0, {0, 1}), {1, 1, 1}, kInvalid, {"12 bytes", "expected 8"});
  ExpectError(&page, Key(0, {0, 1}, uint64_t{1} << 32), {1, 1}, kInvalid,
              {"samples", "4294967296"});
  // Malformed gradients are refused even where a good one would be ignored.
  Add(&page, Key(0, {0, 6}), {1, 1});
  ExpectError(&page, Key(0, {0, 1}), {1}, kInvalid, {"payload"});
}

TEST(ParameterPageTest, RefusesAnotherGeneration) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 1);
  GradientKey key = Key(0, {0, 1});
  key.generation = 1;
  ExpectError(&page, key, {1}, absl::StatusCode::kAborted, {"generation", "found 1", "expected 2"});
  key.generation = 3;
  ExpectError(&page, key, {1}, absl::StatusCode::kFailedPrecondition, {"generation", "found 3"});
}

TEST(ParameterPageTest, RefusesALaterStep) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 1);
  ExpectError(&page, Key(1, {0, 1}), {1}, absl::StatusCode::kFailedPrecondition,
              {"step", "found 1", "at most 0"});
}

TEST(ParameterPageTest, RefusesAStepWithoutSamplesAndCanDoItAnew) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 2);
  Add(&page, Key(0, {0, 1}, 0), {0});
  ExpectError(&page, Key(0, {1, 2}, 0), {0}, absl::StatusCode::kInvalidArgument,
              {"segment 3", "step 0", "samples", "found 0"});
  EXPECT_TRUE(Add(&page, Key(0, {0, 2}, 1), {5}));
  EXPECT_EQ(page.current().weights.data()[0], -5);
}

// The bad element stands in the last tile, so that a merge that updates as it goes would have
// changed the state of the others already.
TEST(ParameterPageTest, NotFiniteGradientChangesNothingNotEvenTheState) {
  constexpr size_t kSize = 5000;
  std::mt19937 random(6);
  const std::vector<float> w = RandomFloats(kSize, &random);
  for (const Optimizer& optimizer : {MakeSgd(0.1f), MakeMomentum(), MakeAdamW()}) {
    ParameterPage page = MakePage(optimizer, w, 4);
    ParameterPage untouched = MakePage(optimizer, w, 4);
    for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      std::vector<float> poisoned = RandomFloats(kSize, &random);
      poisoned[kSize - 1] = bad;
      Add(&page, Key(0, {0, 2}), RandomFloats(kSize, &random));
      Add(&page, Key(0, {2, 3}), poisoned);
      ExpectError(&page, Key(0, {3, 4}), RandomFloats(kSize, &random),
                  absl::StatusCode::kInvalidArgument,
                  {"segment 3", "[1000,6000)", "step 0", "not finite", "[2,3)"});
    }
    for (uint64_t step = 0; step < 3; ++step) {
      const std::vector<float> gradient = RandomFloats(kSize, &random);
      EXPECT_TRUE(Add(&page, Key(step, {0, 4}), gradient));
      EXPECT_TRUE(Add(&untouched, Key(step, {0, 4}), gradient));
      EXPECT_TRUE(SameBits(Values(page.current().weights), Values(untouched.current().weights)));
    }
  }
}

TEST(ParameterPageTest, ACompleteGradientEndsTheOlderVersionEvenWhenItIsRefused) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 1);
  Add(&page, Key(0, {0, 1}), {1});
  ASSERT_TRUE(page.previous().has_value());
  ExpectError(&page, Key(1, {0, 1}), {std::nanf("")}, absl::StatusCode::kInvalidArgument,
              {"not finite"});
  EXPECT_FALSE(page.previous().has_value());
  EXPECT_TRUE(Add(&page, Key(1, {0, 1}), {1}));
  EXPECT_EQ(page.previous()->step, 1u);
}

TEST(ParameterPageTest, NotFiniteErrorNamesOnlyAFewSpansAndKnowsOverflow) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ParameterPage page = MakePage(MakeSgd(1), {0}, 20);
  for (uint32_t s = 0; s < 19; ++s) Add(&page, Key(0, {s, s + 1}), {std::nanf("")});
  ExpectError(&page, Key(0, {19, 20}), {1}, kInvalid, {"[0,1), [1,2)", "[7,8); and 11 more"});
  Add(&page, Key(0, {0, 16}), {3e38f});
  ExpectError(&page, Key(0, {16, 20}), {3e38f}, kInvalid, {"overflow"});
}

TEST(ParameterPageTest, AGradientOfAStepThatIsOverIsIgnored) {
  ParameterPage page = MakePage(MakeSgd(1), {0}, 1);
  EXPECT_TRUE(Add(&page, Key(0, {0, 1}), {4}));
  EXPECT_FALSE(Add(&page, Key(0, {0, 1}), {5}));
  EXPECT_EQ(page.ignored().finished, 1u);
  EXPECT_EQ(page.current().weights.data()[0], -4);
}

TEST(ParameterPageTest, ReducedPageKeepsOnlyTheNewestWeights) {
  ParameterPage page = MakePage(MakeAdamW(), {1, 2}, 2);
  Add(&page, Key(0, {0, 2}), {1, 1});
  SlicePayload payload = OnePiece({1, 1});
  const std::weak_ptr<const void> parked = payload.owner();
  ASSERT_TRUE(page.Add(Key(1, {0, 1}), std::move(payload)).ok());
  payload = SlicePayload();
  const std::vector<float> weights = Values(page.current().weights);
  page.Reduce();
  EXPECT_TRUE(parked.expired());
  EXPECT_FALSE(page.previous().has_value());
  EXPECT_EQ(page.current().step, 1u);
  EXPECT_TRUE(SameBits(Values(page.current().weights), weights));
  EXPECT_FALSE(Add(&page, Key(0, {0, 2}), {1, 1}));  // late, as ever
  ExpectError(&page, Key(1, {0, 2}), {1, 1}, absl::StatusCode::kFailedPrecondition,
              {"the job has ended", "step 1"});
}

TEST(ParameterPageTest, MemoryIsTwoVersionsAndTheState) {
  EXPECT_EQ(ParameterPage::MemoryBytes(100, MakeSgd(1)), 800u);
  EXPECT_EQ(ParameterPage::MemoryBytes(100, MakeMomentum()), 1200u);
  EXPECT_EQ(ParameterPage::MemoryBytes(100, MakeAdamW()), 1600u);
  EXPECT_EQ(ParameterPage::SnapshotBytes(100, MakeSgd(1)), 400u);
  EXPECT_EQ(ParameterPage::SnapshotBytes(100, MakeAdamW()), 1200u);
}

TEST(ParameterPageTest, CreateRefusesOptionsThatContradictOneAnother) {
  const auto refused = [](const ParameterPage::Options& options, size_t weights) {
    return ParameterPage::Create(options, MakeSgd(1), *FloatBuffer::Allocate(weights))
               .status()
               .code() == absl::StatusCode::kInvalidArgument;
  };
  ParameterPage::Options good;
  good.element_count = 10;
  good.ranges = {{0, 3}, {3, 5}, {5, 10}};
  EXPECT_FALSE(refused(good, 10));
  EXPECT_TRUE(refused(good, 9));
  ParameterPage::Options bad = good;
  bad.element_count = 0;
  bad.ranges.clear();
  EXPECT_TRUE(refused(bad, 0));
  bad = good;
  bad.shares = 0;
  EXPECT_TRUE(refused(bad, 10));
  bad = good;
  bad.uses = 0;
  EXPECT_TRUE(refused(bad, 10));
  for (const std::vector<ParameterRange>& ranges : {std::vector<ParameterRange>{{0, 11}},
                                                    {{0, 0}, {0, 10}},
                                                    {{0, 9}},
                                                    {{1, 10}},
                                                    {{0, 4}, {5, 10}},
                                                    {{0, 4}, {3, 10}}}) {
    bad = good;
    bad.ranges = ranges;
    EXPECT_TRUE(refused(bad, 10));
  }
}

// One page of a job that clips to norm 1 and skips; workers "w0" and "w1".
ParameterPage MakeVotingPage(const std::vector<float>& initial, uint32_t shares) {
  ParameterPage::Options options;
  options.segment = 3;
  options.page = 4;
  options.element_count = initial.size();
  options.generation = 2;
  options.shares = shares;
  options.rules.votes = true;
  options.rules.skip_not_finite = true;
  options.rules.max_norm = 1;
  options.blocks = {"layer2"};
  options.workers =
      std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"w0", "w1"});
  return *ParameterPage::Create(options, MakeSgd(1), Buffer(initial));
}

LearningRate RateOfOne() {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(1);
  return *LearningRate::Create(spec, 0);
}

v1::StepDecision Decision(uint64_t step, double sum, uint64_t generation = 2) {
  v1::StepDecision decision;
  decision.set_generation(generation);
  decision.set_step(step);
  decision.add_sum(sum);
  return decision;
}

TEST(VotingPageTest, VotesWithTheSquareOfTheNormAndWaitsForTheDecision) {
  std::mt19937 random(4);
  const std::vector<float> gradient = RandomFloats(5000, &random);
  double norm = 0;
  for (const float g : gradient) norm += double{g} * double{g};
  ParameterPage page = MakeVotingPage(std::vector<float>(5000, 0), 1);
  ASSERT_TRUE(page.Begin(RateOfOne()).ok());
  const auto effects = page.Add(Key(0, {0, 1}), OnePiece(gradient));
  ASSERT_TRUE(effects.ok()) << effects.status();
  EXPECT_FALSE(effects->publish.has_value());
  ASSERT_TRUE(effects->vote.has_value());
  EXPECT_EQ(effects->vote->step, 0u);
  EXPECT_EQ(effects->vote->round, 0u);
  EXPECT_EQ(effects->vote->vote.segment(), 3u);
  EXPECT_EQ(effects->vote->vote.page(), 4u);
  EXPECT_NEAR(effects->vote->vote.value(0), norm, 1e-12 * norm);
  // The model has a norm of 10 where the page says nothing of it.
  const auto decided = page.Decide(Decision(0, 100));
  ASSERT_TRUE(decided.ok() && decided->publish.has_value());
  const auto scale = static_cast<float>(1 / (10 + 1e-6));
  for (size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_EQ(page.current().weights.data()[i], -(scale * gradient[i]));
  }
  // Again it changes nothing.
  const auto again = page.Decide(Decision(0, 100));
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->publish.has_value());
  EXPECT_EQ(page.updates(), 1u);
}

TEST(VotingPageTest, ADecisionWaitsForTheLearningRate) {
  ParameterPage page = MakeVotingPage({0}, 1);
  ASSERT_TRUE(page.Add(Key(0, {0, 1}), OnePiece({0.5f})).ok());
  EXPECT_FALSE(page.Decide(Decision(0, 0.25))->publish.has_value());
  const auto begun = page.Begin(RateOfOne());
  ASSERT_TRUE(begun.ok() && begun->publish.has_value());
  EXPECT_EQ(page.current().weights.data()[0], -0.5f);
}

TEST(VotingPageTest, ASkippedStepKeepsTheBufferAndNamesWhoIsToBlame) {
  ParameterPage page = MakeVotingPage({7}, 4);
  ASSERT_TRUE(page.Begin(RateOfOne()).ok());
  const float* const weights = page.current().weights.data();
  uint64_t step = 0;
  for (; step < 3; ++step) {
    for (const uint32_t share : {0u, 1u, 2u}) {
      GradientKey key = Key(step, {share, share + 1});
      ASSERT_TRUE(page.Add(key, OnePiece({1})).ok());
    }
    GradientKey key = Key(step, {3, 4});
    key.source = 1;
    const auto effects = page.Add(key, OnePiece({std::nanf("")}));
    ASSERT_TRUE(effects.ok() && effects->vote.has_value());
    EXPECT_FALSE(std::isfinite(effects->vote->vote.value(0)));
    EXPECT_EQ(effects->vote->vote.fault(), "worker w1, block layer2, shares [3,4)");
    const auto decided = page.Decide(Decision(step, std::numeric_limits<double>::infinity()));
    ASSERT_TRUE(decided.ok() && decided->publish.has_value());
    EXPECT_EQ(decided->publish->step, step + 1);
    EXPECT_EQ(page.current().weights.data(), weights);
    EXPECT_EQ(page.previous()->step, step);
  }
  EXPECT_EQ(page.updates(), 0u);
  ASSERT_TRUE(page.Add(Key(step, {0, 4}, 4), OnePiece({2})).ok());
  ASSERT_TRUE(page.Decide(Decision(step, 0.25)).ok());
  EXPECT_EQ(page.current().weights.data()[0], 6.5f);
  EXPECT_EQ(page.updates(), 1u);
}

TEST(VotingPageTest, VotesOnTheStepAndTheOneBeforeCanBeCastAgain) {
  ParameterPage page = MakeVotingPage({0}, 1);
  ASSERT_TRUE(page.Begin(RateOfOne()).ok());
  ASSERT_TRUE(page.Add(Key(0, {0, 1}), OnePiece({0.5f})).ok());
  ASSERT_TRUE(page.Decide(Decision(0, 0.25)).ok());
  ASSERT_TRUE(page.Add(Key(1, {0, 1}), OnePiece({0.25f})).ok());
  const std::vector<ParameterPage::Vote> votes = page.Votes();
  ASSERT_EQ(votes.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(votes[i].generation, 2u);
    EXPECT_EQ(votes[i].step, i);
  }
  EXPECT_EQ(votes[0].vote.value(0), 0.25);
  EXPECT_EQ(votes[1].vote.value(0), 0.0625);
  // A gradient that comes again and a decision of an older generation change nothing.
  EXPECT_FALSE(Add(&page, Key(1, {0, 1}), {0.25f}));
  EXPECT_EQ(page.ignored().covered, 1u);
  EXPECT_FALSE(page.Decide(Decision(1, 0.0625, 1))->publish.has_value());
  ASSERT_TRUE(page.Decide(Decision(1, 0.0625))->publish.has_value());
  EXPECT_EQ(page.current().weights.data()[0], -0.75f);
}

TEST(VotingPageTest, RefusesDecisionsThatDoNotFit) {
  ParameterPage page = MakeVotingPage({0}, 1);
  ASSERT_TRUE(page.Begin(RateOfOne()).ok());
  constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(page.Decide(Decision(0, 1)).status().code(), kPrecondition);  // it has not voted
  ASSERT_TRUE(page.Add(Key(0, {0, 1}), OnePiece({1})).ok());
  EXPECT_EQ(page.Decide(Decision(1, 1)).status().code(), kPrecondition);
  EXPECT_EQ(page.Decide(Decision(0, 1, 3)).status().code(), kPrecondition);
  v1::StepDecision two = Decision(0, 1);
  two.add_sum(1);
  EXPECT_EQ(page.Decide(two).status().code(), absl::StatusCode::kInvalidArgument);
  v1::StepDecision round1 = Decision(0, 1);
  round1.set_round(1);
  EXPECT_EQ(page.Decide(round1).status().code(), kPrecondition);
  EXPECT_EQ(page.current().step, 0u);
}

TEST(CheckGenerationTest, OlderIsAbortedLaterIsRefused) {
  EXPECT_TRUE(CheckGeneration(4, 4).ok());
  EXPECT_EQ(CheckGeneration(3, 4).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(CheckGeneration(5, 4).code(), absl::StatusCode::kFailedPrecondition);
}

// The page, with training begun.
ParameterPage Begun(ParameterPage page) {
  v1::OptimizerSpec spec;
  spec.set_learning_rate(0.1f);
  EXPECT_TRUE(page.Begin(*LearningRate::Create(spec, 100)).ok());
  return page;
}

// One step of a page with a single share.
void Step(ParameterPage* page, uint64_t step, std::mt19937* random) {
  EXPECT_TRUE(Add(page, Key(step, {0, 1}, 4), RandomFloats(page->options().element_count, random)));
}

TEST(ParameterPageTest, SnapshotSurvivesLaterUpdates) {
  std::mt19937 random(11);
  ParameterPage page = Begun(MakePage(MakeAdamW(), RandomFloats(100, &random), 1));
  Step(&page, 0, &random);
  Step(&page, 1, &random);
  const PageState snapshot = *page.Snapshot();
  EXPECT_EQ(snapshot.step, 2u);
  EXPECT_EQ(snapshot.updates, 2u);
  const std::vector<float> weights = Values(snapshot.weights);
  const std::vector<float> first = Values(snapshot.state[0]);
  const std::vector<float> second = Values(snapshot.state[1]);
  for (uint64_t step = 2; step < 6; ++step) Step(&page, step, &random);
  EXPECT_TRUE(SameBits(Values(snapshot.weights), weights));
  EXPECT_TRUE(SameBits(Values(snapshot.state[0]), first));
  EXPECT_TRUE(SameBits(Values(snapshot.state[1]), second));
  EXPECT_FALSE(SameBits(Values(page.Snapshot()->state[0]), first));
}

TEST(ParameterPageTest, SnapshotCopiesNothingUntilTheNextUpdate) {
  ParameterPage page = Begun(MakePage(MakeMomentum(), {1, 2}, 1));
  const float* const before = page.Snapshot()->state[0].data();
  EXPECT_EQ(page.Snapshot()->state[0].data(), before);
  EXPECT_EQ(page.Snapshot()->weights.data(), page.current().weights.data());
  // Nobody holds a snapshot now: the update works in place.
  EXPECT_TRUE(Add(&page, Key(0, {0, 1}), {1, 1}));
  EXPECT_EQ(page.Snapshot()->state[0].data(), before);
}

TEST(ParameterPageTest, RestoredPageGoesOnWithTheSameBits) {
  std::mt19937 random(12);
  ParameterPage page = Begun(MakePage(MakeAdamW(), RandomFloats(100, &random), 1));
  for (uint64_t step = 0; step < 3; ++step) Step(&page, step, &random);
  const PageState snapshot = *page.Snapshot();
  PageState state;
  state.step = snapshot.step;
  state.updates = snapshot.updates;
  state.weights = Buffer(Values(snapshot.weights));
  for (int i = 0; i < 2; ++i) state.state[i] = Buffer(Values(snapshot.state[i]));
  ParameterPage::Options options = page.options();
  options.generation = 2;
  absl::StatusOr<ParameterPage> restored =
      ParameterPage::Restore(options, MakeAdamW(), std::move(state));
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->current().step, 3u);
  *restored = Begun(*std::move(restored));
  for (uint64_t step = 3; step < 6; ++step) {
    const std::vector<float> gradient = RandomFloats(100, &random);
    EXPECT_TRUE(Add(&page, Key(step, {0, 1}, 4), gradient));
    EXPECT_TRUE(Add(&*restored, Key(step, {0, 1}, 4), gradient));
    EXPECT_TRUE(SameBits(Values(page.current().weights), Values(restored->current().weights)));
  }
}

TEST(ParameterPageTest, RefusesStateThatDoesNotFit) {
  ParameterPage::Options options;
  options.element_count = 2;
  PageState state;
  state.weights = Buffer({1, 2});
  state.state[0] = Buffer({1, 2});
  const absl::Status missing = ParameterPage::Restore(options, MakeAdamW(), state).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(missing.message().find("state 1: found 0 elements, expected 2"), std::string::npos)
      << missing;
  EXPECT_FALSE(ParameterPage::Restore(options, MakeSgd(1), state).ok());
}

}  // namespace
}  // namespace sangam
