// Pages and tally together, against a plain loop over the whole model: gradients, votes and
// decisions come in any order, twice or not at all, and are sent again in every state.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/learning_rate.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/optimizer.h"
#include "server/core/parameter_page.h"
#include "server/core/step_rules.h"
#include "server/core/step_tally.h"
#include "server/core/vector_kernels.h"
#include "tests/server/core/naive_merge.h"

namespace sangam {
namespace {

constexpr uint64_t kSteps = 6;
constexpr uint64_t kSkippedStep = 2;
constexpr uint32_t kShares = 3;
constexpr uint64_t kPageElements = 10;

struct PagePlace {
  uint32_t segment;
  uint32_t page;
  std::vector<ParameterRange> ranges;
  uint64_t size() const { return ranges.back().end; }
};

// Segments of 25 elements (parameters 0 and 1) and 4 (parameter 2).
const std::vector<PagePlace>& Places() {
  static const std::vector<PagePlace> places = {
      {0, 0, {{0, 10, 0, 0.01f, 0}}},
      {0, 1, {{0, 8, 0, 0.01f, 0}, {8, 10, 1, 0, 0}}},
      {0, 2, {{0, 5, 1, 0, 0}}},
      {1, 0, {{0, 4, 2, 0, 0.25f}}},  // a running mean
  };
  return places;
}

v1::Plan MakePlan() {
  v1::Plan plan;
  plan.set_job(5);
  plan.set_generation(1);
  plan.set_page_elements(kPageElements);
  plan.add_server();
  const std::vector<std::vector<uint64_t>> segments = {{18, 7}, {4}};
  uint32_t index = 0;
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
    for (uint64_t p = 0; p < NumPages(segment->element_count(), kPageElements); ++p) {
      pages->add_server(0);
    }
  }
  return plan;
}

std::vector<std::vector<float>> Gradients(uint64_t step, size_t place) {
  std::mt19937 random(static_cast<uint32_t>(100 * step + place));
  auto gradients = RandomShares(kShares, Places()[place].size(), &random);
  if (step == kSkippedStep && place == 1) {
    gradients[1][3] = std::numeric_limits<float>::infinity();
  }
  return gradients;
}

std::vector<float> InitialWeights(size_t place) {
  std::mt19937 random(static_cast<uint32_t>(7 + place));
  return RandomFloats(Places()[place].size(), &random);
}

// The weights after all steps, page by page, without pages and without votes.
std::vector<std::vector<float>> PlainLoop(const v1::JobSpec& spec) {
  const Optimizer optimizer = *Optimizer::Create(spec.optimizer());
  const LearningRate rate = *LearningRate::Create(spec.optimizer(), kSteps);
  const StepRules rules = RulesOf(spec);
  const VectorKernels& kernels = FastestKernels();
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<std::vector<float>>> state(Places().size());
  for (size_t p = 0; p < Places().size(); ++p) {
    weights.push_back(InitialWeights(p));
    state[p].assign(Optimizer::kMaxState, std::vector<float>(Places()[p].size(), 0));
  }
  uint64_t updates = 0;
  for (uint64_t step = 0; step < kSteps; ++step) {
    std::vector<std::vector<float>> next;
    std::vector<Optimizer::Elements> elements;
    bool finite = true;
    for (size_t p = 0; p < Places().size(); ++p) {
      next.push_back(NaiveSum(Gradients(step, p), {0, kShares}));
      for (float& g : next.back()) {
        g /= static_cast<float>(kShares);
        finite = finite && std::isfinite(g);
      }
    }
    if (!finite) continue;
    double squared_norm = 0;
    for (size_t p = 0; p < Places().size(); ++p) {
      Optimizer::Elements page;
      page.count = Places()[p].size();
      page.weights = weights[p].data();
      for (int i = 0; i < Optimizer::kMaxState; ++i) page.state[i] = state[p][i].data();
      page.next = next[p].data();
      page.ranges = &Places()[p].ranges;
      elements.push_back(page);
      squared_norm += Optimizer::SquaredNorm(page, kernels);
    }
    StepNumbers numbers;
    numbers.learning_rate = rate.At(step);
    numbers.updates = updates++;
    numbers.scale = ClippingScale(squared_norm, rules.max_norm);
    if (rules.trust_ratios) {
      std::vector<double> sums(6);
      for (size_t p = 0; p < Places().size(); ++p) {
        std::vector<double> norms;
        optimizer.Direct(numbers, elements[p], kernels, &norms);
        for (size_t r = 0; r < norms.size(); ++r) {
          sums[2 * Places()[p].ranges[r / 2].parameter + r % 2] += norms[r];
        }
      }
      for (size_t p = 0; p < Places().size(); ++p) {
        std::vector<float> trust;
        for (const ParameterRange& range : Places()[p].ranges) {
          const double w = sums[2 * range.parameter];
          const double r = sums[2 * range.parameter + 1];
          trust.push_back(w > 0 && r > 0 ? static_cast<float>(std::sqrt(w) / std::sqrt(r)) : 1);
        }
        optimizer.Apply(numbers, trust, elements[p], kernels);
      }
    } else {
      for (const Optimizer::Elements& page : elements) optimizer.Update(numbers, page, kernels);
    }
    weights = std::move(next);
  }
  return weights;
}

// The same with pages and a tally, whose messages come as `seed` says.
class Simulation {
 public:
  Simulation(const v1::JobSpec& spec, uint32_t seed)
      : random_(seed),
        plan_(MakePlan()),
        rate_(*LearningRate::Create(spec.optimizer(), kSteps)),
        tally_(plan_, *PageMap::Create(plan_),
               RulesOf(spec).trust_ratios ? StepTally::Rounds::kTwo : StepTally::Rounds::kOne) {
    for (size_t p = 0; p < Places().size(); ++p) {
      ParameterPage::Options options;
      options.segment = Places()[p].segment;
      options.page = Places()[p].page;
      options.element_count = Places()[p].size();
      options.generation = 1;
      options.shares = kShares;
      options.ranges = Places()[p].ranges;
      options.rules = RulesOf(spec);
      FloatBuffer initial = *FloatBuffer::Allocate(options.element_count);
      const std::vector<float> values = InitialWeights(p);
      std::copy(values.begin(), values.end(), initial.data());
      pages_.push_back(*ParameterPage::Create(
          std::move(options), *Optimizer::Create(spec.optimizer()), std::move(initial)));
    }
  }

  void Run() {
    Push(0);
    for (int events = 0; Lowest() < kSteps; ++events) {
      ASSERT_LT(events, 100000);
      if (messages_.empty() || random_() % 40 == 0) SendAgain();
      if (random_() % 8 == 0) Handle(pages_[random_() % pages_.size()].Begin(rate_));
      if (messages_.empty()) continue;
      std::swap(messages_[random_() % messages_.size()], messages_.back());
      const Message message = messages_.back();
      if (random_() % 6 != 0) messages_.pop_back();  // else it comes again
      if (random_() % 30 == 0) continue;             // it is lost
      Deliver(message);
      if (Lowest() > pushed_ && Lowest() < kSteps) Push(Lowest());
    }
  }

  std::vector<std::vector<float>> Weights() const {
    std::vector<std::vector<float>> weights;
    for (const ParameterPage& page : pages_) {
      const FloatBuffer& buffer = page.current().weights;
      weights.emplace_back(buffer.data(), buffer.data() + buffer.size());
    }
    return weights;
  }
  const std::vector<ParameterPage>& pages() const { return pages_; }

 private:
  struct Message {
    // A gradient, a vote, or a decision.
    size_t place = 0;
    std::optional<GradientKey> gradient;
    std::optional<v1::StepVotes> votes;
    std::optional<v1::StepDecision> decision;
  };

  uint64_t Lowest() const {
    uint64_t lowest = UINT64_MAX;
    for (const ParameterPage& page : pages_) lowest = std::min(lowest, page.current().step);
    return lowest;
  }

  // The workers compute a step.
  void Push(uint64_t step) {
    pushed_ = step;
    for (size_t p = 0; p < pages_.size(); ++p) {
      for (const ShareSpan span : RandomGrouping({0, kShares}, &random_)) {
        Message message;
        message.place = p;
        message.gradient = GradientKey{plan_.generation(), step, span, span.size()};
        messages_.push_back(message);
      }
    }
  }

  void Send(const ParameterPage::Vote& vote) {
    Message message;
    message.votes.emplace();
    message.votes->set_job(5);
    message.votes->set_generation(vote.generation);
    message.votes->set_step(vote.step);
    message.votes->set_round(vote.round);
    *message.votes->add_page() = vote.vote;
    messages_.push_back(message);
  }

  // All connections were broken: what may have been lost is sent again.
  void SendAgain() {
    for (const ParameterPage& page : pages_) {
      for (const ParameterPage::Vote& vote : page.Votes()) Send(vote);
    }
    if (Lowest() < kSteps) Push(Lowest());
  }

  void Handle(const absl::StatusOr<ParameterPage::Effects>& effects) {
    ASSERT_TRUE(effects.ok()) << effects.status();
    if (effects->vote.has_value()) Send(*effects->vote);
  }

  void Deliver(const Message& message) {
    if (message.gradient.has_value()) {
      const GradientKey& key = *message.gradient;
      const auto sum = NaiveSum(Gradients(key.step, message.place), key.span);
      Handle(pages_[message.place].Add(key, RandomPieces(sum, &random_)));
    } else if (message.votes.has_value()) {
      const absl::StatusOr<StepTally::Answer> answer = tally_.Add(*message.votes);
      ASSERT_TRUE(answer.ok()) << answer.status();
      if (!answer->decision.has_value()) return;
      for (size_t p = 0; p < pages_.size(); ++p) {
        Message decision;
        decision.place = p;
        decision.decision = answer->decision;
        messages_.push_back(decision);
      }
    } else {
      Handle(pages_[message.place].Decide(*message.decision));
    }
  }

  std::mt19937 random_;
  const v1::Plan plan_;
  const LearningRate rate_;
  StepTally tally_;
  std::vector<ParameterPage> pages_;
  std::vector<Message> messages_;
  uint64_t pushed_ = 0;
};

void ExpectThePlainLoop(const v1::JobSpec& spec) {
  const std::vector<std::vector<float>> expected = PlainLoop(spec);
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Simulation simulation(spec, seed);
    simulation.Run();
    if (::testing::Test::HasFatalFailure()) return;
    const std::vector<std::vector<float>> weights = simulation.Weights();
    for (size_t p = 0; p < expected.size(); ++p) {
      ASSERT_TRUE(SameBits(weights[p], expected[p])) << "seed " << seed << ", page " << p;
      EXPECT_EQ(simulation.pages()[p].updates(), kSteps - 1);
    }
  }
}

v1::JobSpec Spec() {
  v1::JobSpec spec;
  spec.mutable_optimizer()->set_learning_rate(0.1f);
  spec.mutable_optimizer()->mutable_schedule()->mutable_linear();
  spec.mutable_optimizer()->mutable_clipping()->set_max_norm(0.5f);
  spec.set_on_nonfinite(v1::SKIP_STEP);
  return spec;
}

TEST(WholeStepTest, ClippingAndSkippingAreThePlainLoopWhateverHappens) {
  v1::JobSpec spec = Spec();
  spec.mutable_optimizer()->mutable_adamw();
  ExpectThePlainLoop(spec);
}

TEST(WholeStepTest, TrustRatiosAreThePlainLoopWhateverHappens) {
  v1::JobSpec spec = Spec();
  spec.mutable_optimizer()->mutable_lamb();
  ExpectThePlainLoop(spec);
}

// The loop that the others are compared with clips.
TEST(WholeStepTest, TheNormCounts) {
  v1::JobSpec spec = Spec();
  spec.mutable_optimizer()->mutable_momentum()->set_momentum(0.5f);
  const std::vector<std::vector<float>> clipped = PlainLoop(spec);
  spec.mutable_optimizer()->clear_clipping();
  const std::vector<std::vector<float>> free = PlainLoop(spec);
  EXPECT_FALSE(SameBits(clipped[0], free[0]));
  EXPECT_TRUE(SameBits(clipped[3], free[3]));  // running statistics are in no norm
}

}  // namespace
}  // namespace sangam
