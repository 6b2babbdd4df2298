#include "server/core/parameter_page.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/errors/error_details.h"
#include "common/model/learning_rate.h"
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/parameter_service.pb.h"
#include "server/core/optimizer.h"
#include "server/core/parked_sum.h"
#include "server/core/step_rules.h"
#include "server/core/vector_kernels.h"

namespace sangam {
namespace {

// Of one gradient; so the sum over at most 2^32 shares fits 64 bits.
constexpr uint64_t kMaxSamples = std::numeric_limits<uint32_t>::max();

// Spans that an error names.
constexpr size_t kMaxNamedSpans = 8;

absl::Status CheckOptions(const ParameterPage::Options& options, const FloatBuffer& initial) {
  if (options.element_count == 0 || initial.size() != options.element_count) {
    return absl::InvalidArgumentError(absl::StrCat("page: found ", initial.size(),
                                                   " weights, expected ", options.element_count,
                                                   " and at least 1"));
  }
  if (options.shares == 0) {
    return absl::InvalidArgumentError("page: found 0 shares, expected at least 1");
  }
  if (options.uses == 0) {
    return absl::InvalidArgumentError("page: found 0 uses, expected at least 1");
  }
  uint64_t done = 0;
  for (const ParameterRange& range : options.ranges) {
    if (range.begin != done || range.end <= range.begin || range.end > options.element_count) {
      return absl::InvalidArgumentError(absl::StrCat("page: found a range [", range.begin, ",",
                                                     range.end, "), expected one that begins at ",
                                                     done, " and ends by ", options.element_count));
    }
    done = range.end;
  }
  if (done != options.element_count && !options.ranges.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("page: found ranges that end at ", done,
                                                   ", expected ", options.element_count));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckGeneration(uint64_t found, uint64_t current) {
  if (found < current) {
    return WithReason(
        absl::AbortedError(absl::StrCat("generation: found ", found, ", expected ", current,
                                        ": ask the coordinator for the plan")),
        "EPOCH_FENCED", {{"found", absl::StrCat(found)}, {"expected", absl::StrCat(current)}});
  }
  if (found > current) {
    return absl::FailedPreconditionError(
        absl::StrCat("generation: found ", found, ", this server is at ", current));
  }
  return absl::OkStatus();
}

ParameterPage::ParameterPage(Options options, const Optimizer& optimizer)
    : options_(std::move(options)),
      optimizer_(optimizer),
      trees_(options_.uses, Tree(options_.shares, MergeParked())) {}

absl::StatusOr<ParameterPage> ParameterPage::Create(Options options, const Optimizer& optimizer,
                                                    FloatBuffer initial) {
  RETURN_IF_ERROR(CheckOptions(options, initial));
  if (options.ranges.empty()) options.ranges = {{0, options.element_count, 0, 0, 0}};
  ParameterPage page(std::move(options), optimizer);
  page.current_.weights = std::move(initial);
  const uint64_t count = page.options_.element_count;
  ASSIGN_OR_RETURN(page.spare_, FloatBuffer::Allocate(count));
  for (int i = 0; i < optimizer.state_count(); ++i) {
    ASSIGN_OR_RETURN(page.state_[i], FloatBuffer::Allocate(count));
    if (optimizer.initial_state(i) != 0) {
      std::fill_n(page.state_[i].data(), count, optimizer.initial_state(i));
    }
  }
  return page;
}

absl::StatusOr<ParameterPage> ParameterPage::Restore(Options options, const Optimizer& optimizer,
                                                     PageState state) {
  RETURN_IF_ERROR(CheckOptions(options, state.weights));
  if (options.ranges.empty()) options.ranges = {{0, options.element_count, 0, 0, 0}};
  ParameterPage page(std::move(options), optimizer);
  const uint64_t count = page.options_.element_count;
  for (int i = 0; i < Optimizer::kMaxState; ++i) {
    const uint64_t expected = i < optimizer.state_count() ? count : 0;
    if (state.state[i].size() == expected) continue;
    return absl::InvalidArgumentError(absl::StrCat(page.Name(), ": state ", i, ": found ",
                                                   state.state[i].size(), " elements, expected ",
                                                   expected));
  }
  ASSIGN_OR_RETURN(page.spare_, FloatBuffer::Allocate(count));
  page.current_ = {state.step, std::move(state.weights)};
  page.state_ = std::move(state.state);
  page.updates_ = state.updates;
  return page;
}

std::optional<PageState> ParameterPage::Snapshot() const {
  if (step_state_ == State::kDirected) return std::nullopt;
  return PageState{current_.step, updates_, current_.weights, state_};
}

uint64_t ParameterPage::MemoryBytes(uint64_t element_count, const Optimizer& optimizer) {
  return element_count * (2 + optimizer.state_count()) * sizeof(float);
}

uint64_t ParameterPage::SnapshotBytes(uint64_t element_count, const Optimizer& optimizer) {
  return element_count * (1 + optimizer.state_count()) * sizeof(float);
}

std::string ParameterPage::Name() const {
  return absl::StrCat("segment ", options_.segment, ", page [", options_.first_element, ",",
                      options_.first_element + options_.element_count, ")");
}

absl::Status ParameterPage::Check(const GradientKey& key, uint64_t payload_bytes) const {
  RETURN_IF_ERROR(CheckGeneration(key.generation, generation()));
  if (!IsTreeNode(key.span, options_.shares)) {
    return absl::InvalidArgumentError(absl::StrCat(Name(), ": span: found ", ToString(key.span),
                                                   ", expected a node of the tree over [0,",
                                                   options_.shares, ")"));
  }
  if (key.use >= options_.uses) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(), ": use: found ", key.use, ", expected less than ", options_.uses));
  }
  const uint64_t expected_bytes = options_.element_count * sizeof(float);
  if (payload_bytes != expected_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(Name(), ": payload: found ", payload_bytes,
                                                   " bytes, expected ", expected_bytes));
  }
  if (key.samples > kMaxSamples) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(), ": samples: found ", key.samples, ", expected at most ", kMaxSamples));
  }
  return absl::OkStatus();
}

absl::StatusOr<ParameterPage::Effects> ParameterPage::Add(const GradientKey& key,
                                                          SlicePayload elements) {
  RETURN_IF_ERROR(Check(key, elements.size()));
  if (key.step < current_.step) {
    ++ignored_.finished;
    return Effects();
  }
  if (reduced_) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), ": the job has ended, found a gradient of step ", key.step));
  }
  if (key.step > current_.step) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), ": step: found ", key.step, ", expected at most ", current_.step));
  }
  if (step_state_ != State::kParked) {
    ++ignored_.covered;
    return Effects();
  }
  ASSIGN_OR_RETURN(
      const auto result,
      trees_[key.use].Add(
          key.span, ParkedSum({key.span, key.samples, std::move(elements), key.use, key.source})));
  if (result == Tree::Result::kCovered) {
    ++ignored_.covered;
    return Effects();
  }
  if (!Complete()) return Effects();
  ASSIGN_OR_RETURN(const StepSum sum, TakeSum());
  return Finish(sum);
}

bool ParameterPage::Complete() const {
  return std::all_of(trees_.begin(), trees_.end(), [](const Tree& tree) {
    return tree.Covers({0, tree.shares()});
  });
}

absl::StatusOr<ParameterPage::StepSum> ParameterPage::TakeSum() {
  std::vector<ParkedSum> roots;
  for (Tree& tree : trees_) roots.push_back(*tree.TakeRoot());
  const uint64_t samples = roots[0].samples();
  if (samples == 0) {
    return absl::InvalidArgumentError(absl::StrCat(Name(), ", step ", current_.step,
                                                   ": samples: found 0 over all shares, expected "
                                                   "at least 1"));
  }
  for (size_t use = 1; use < roots.size(); ++use) {
    if (roots[use].samples() == samples) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(Name(), ", step ", current_.step, ": samples: found ", roots[use].samples(),
                     " over all shares of use ", use, ", expected ", samples, " as of use 0"));
  }
  ParkedSum sum = std::move(roots[0]);
  for (size_t use = 1; use < roots.size(); ++use) {
    sum = ParkedSum::Merge(std::move(sum), std::move(roots[use]));
  }
  return StepSum{std::move(sum), samples};
}

absl::StatusOr<FloatBuffer> ParameterPage::TakeTarget() {
  FloatBuffer target = std::move(spare_);
  if (previous_.has_value()) {
    FloatBuffer older = std::move(previous_->weights);
    previous_.reset();
    // After a skipped step the current version has the same memory, and there is a spare one.
    if (older.unique()) target = std::move(older);
  }
  // A reader who still holds it keeps it; it is freed when the reader lets go.
  if (target.unique()) return target;
  return FloatBuffer::Allocate(options_.element_count);
}

absl::Status ParameterPage::OwnState() {
  for (int i = 0; i < optimizer_.state_count(); ++i) {
    if (state_[i].unique()) continue;
    ASSIGN_OR_RETURN(FloatBuffer own, FloatBuffer::Allocate(options_.element_count), "%s", Name());
    std::copy_n(state_[i].data(), options_.element_count, own.data());
    state_[i] = std::move(own);
  }
  return absl::OkStatus();
}

Optimizer::Elements ParameterPage::Elements() {
  Optimizer::Elements elements;
  elements.count = options_.element_count;
  elements.weights = current_.weights.data();
  for (int i = 0; i < optimizer_.state_count(); ++i) elements.state[i] = state_[i].data();
  elements.next = next_.data();
  elements.ranges = &options_.ranges;
  return elements;
}

StepNumbers ParameterPage::Numbers() const {
  StepNumbers numbers;
  numbers.learning_rate = rate_->At(current_.step);
  numbers.updates = updates_;
  if (squared_norm_.has_value()) {
    numbers.scale = ClippingScale(*squared_norm_, options_.rules.max_norm);
  }
  return numbers;
}

absl::StatusOr<ParameterPage::Effects> ParameterPage::Finish(const StepSum& sum) {
  ASSIGN_OR_RETURN(next_, TakeTarget(), "%s", Name());
  // Two passes over a page that stays in the cache instead of one: the optimizer changes its state
  // in place, so it must not begin before the whole gradient is known to be finite.
  const VectorKernels& kernels = FastestKernels();
  const bool finite =
      sum.sum.Mean(options_.element_count, static_cast<float>(sum.samples), next_.data(), kernels);
  if (!finite && !options_.rules.skip_not_finite) {
    spare_ = std::move(next_);
    next_ = FloatBuffer();
    return absl::InvalidArgumentError(absl::StrCat(
        Name(), ", step ", current_.step, ": the gradient is not finite: ", Blame(sum.sum)));
  }
  step_state_ = State::kComplete;
  if (!options_.rules.votes) return GoOn();
  v1::PageVote vote;
  if (finite) {
    vote.add_value(optimizer_.SquaredNorm(Elements(), kernels));
  } else {
    vote.add_value(std::numeric_limits<double>::infinity());
    vote.set_fault(Blame(sum.sum));
  }
  return CastVote(std::move(vote));
}

ParameterPage::Effects ParameterPage::CastVote(v1::PageVote vote) {
  vote.set_segment(options_.segment);
  vote.set_page(options_.page);
  votes_.push_back(std::move(vote));
  Effects effects;
  effects.vote =
      Vote{generation(), current_.step, static_cast<uint32_t>(votes_.size() - 1), votes_.back()};
  return effects;
}

std::vector<ParameterPage::Vote> ParameterPage::Votes() const {
  std::vector<Vote> all;
  for (uint32_t round = 0; round < last_votes_.size(); ++round) {
    all.push_back({generation(), current_.step - 1, round, last_votes_[round]});
  }
  for (uint32_t round = 0; round < votes_.size(); ++round) {
    all.push_back({generation(), current_.step, round, votes_[round]});
  }
  return all;
}

absl::StatusOr<ParameterPage::Effects> ParameterPage::Begin(const LearningRate& rate) {
  if (rate_.has_value()) return Effects();
  rate_ = rate;
  return GoOn();
}

absl::StatusOr<ParameterPage::Effects> ParameterPage::Decide(const v1::StepDecision& decision) {
  if (reduced_ || decision.generation() < generation() || decision.step() < current_.step) {
    return Effects();
  }
  RETURN_IF_ERROR(CheckGeneration(decision.generation(), generation()), "%s", Name());
  if (decision.step() > current_.step || decision.round() >= votes_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(), ", step ", current_.step, ": found a decision on round ",
                     decision.round(), " of step ", decision.step(), ", which has no vote of it"));
  }
  if (decision.round() > 0) return ApplyTrust(decision);
  if (squared_norm_.has_value()) return Effects();
  if (decision.sum_size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(Name(), ": found a decision on round 0 with ",
                                                   decision.sum_size(), " sums, expected 1"));
  }
  if (!std::isfinite(decision.sum(0)) && !options_.rules.skip_not_finite) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(), ": found a decision on round 0 that is not finite"));
  }
  squared_norm_ = decision.sum(0);
  return GoOn();
}

absl::StatusOr<ParameterPage::Effects> ParameterPage::GoOn() {
  if (step_state_ != State::kComplete || !rate_.has_value()) return Effects();
  if (options_.rules.votes && !squared_norm_.has_value()) return Effects();
  if (squared_norm_.has_value() && !std::isfinite(*squared_norm_)) return Skip();
  RETURN_IF_ERROR(OwnState());
  if (options_.rules.trust_ratios) return Direct(Numbers());
  optimizer_.Update(Numbers(), Elements(), FastestKernels());
  return EndStep();
}

ParameterPage::Effects ParameterPage::Direct(const StepNumbers& numbers) {
  std::vector<double> norms;
  optimizer_.Direct(numbers, Elements(), FastestKernels(), &norms);
  step_state_ = State::kDirected;
  v1::PageVote vote;
  vote.mutable_value()->Assign(norms.begin(), norms.end());
  return CastVote(std::move(vote));
}

absl::StatusOr<ParameterPage::Effects> ParameterPage::ApplyTrust(const v1::StepDecision& decision) {
  std::vector<uint32_t> parameters;
  uint64_t needed = 0;
  for (const ParameterRange& range : options_.ranges) {
    parameters.push_back(range.parameter);
    needed = std::max(needed, 2 * uint64_t{range.parameter} + 2);
  }
  if (static_cast<uint64_t>(decision.sum_size()) < needed) {
    return absl::InvalidArgumentError(absl::StrCat(Name(), ": found a decision on round 1 with ",
                                                   decision.sum_size(), " sums, expected at least ",
                                                   needed));
  }
  optimizer_.Apply(Numbers(), TrustRatios(decision, parameters), Elements(), FastestKernels());
  return EndStep();
}

ParameterPage::Effects ParameterPage::EndStep() {
  ++updates_;
  BeginNextStep(std::move(next_));
  return Effects{current_, std::nullopt};
}

ParameterPage::Effects ParameterPage::Skip() {
  spare_ = std::move(next_);
  BeginNextStep(current_.weights);
  return Effects{current_, std::nullopt};
}

void ParameterPage::BeginNextStep(FloatBuffer weights) {
  const uint64_t step = current_.step + 1;
  previous_ = std::move(current_);
  current_ = {step, std::move(weights)};
  next_ = FloatBuffer();
  step_state_ = State::kParked;
  squared_norm_.reset();
  last_votes_ = std::move(votes_);
  votes_.clear();
}

std::string ParameterPage::BlockName(uint32_t use) const {
  if (use < options_.blocks.size()) return absl::StrCat("block ", options_.blocks[use]);
  return options_.uses > 1 ? absl::StrCat("segment ", options_.segment, ", use ", use)
                           : absl::StrCat("segment ", options_.segment);
}

std::string ParameterPage::Blame(const ParkedSum& sum) const {
  // Of each worker and use, in the order of the sum.
  std::vector<std::pair<std::string, std::vector<std::string>>> parts;
  size_t count = 0;
  for (const ParkedGradient* gradient : sum.NonFinite()) {
    if (++count > kMaxNamedSpans) continue;
    const uint32_t source = gradient->source;
    const std::string who =
        options_.workers != nullptr && source < options_.workers->size()
            ? absl::StrCat("worker ", (*options_.workers)[source], ", ", BlockName(gradient->use))
            : absl::StrCat("worker ", source, " of the plan, ", BlockName(gradient->use));
    const auto part = std::find_if(parts.begin(), parts.end(),
                                   [&who](const auto& other) { return other.first == who; });
    if (part != parts.end()) {
      part->second.push_back(ToString(gradient->span));
    } else {
      parts.emplace_back(who, std::vector<std::string>{ToString(gradient->span)});
    }
  }
  if (count == 0) return absl::StrCat(BlockName(0), ": the sum of finite gradients overflows");
  std::vector<std::string> texts;
  for (const auto& [who, spans] : parts) {
    texts.push_back(absl::StrCat(who, ", shares ", absl::StrJoin(spans, ", ")));
  }
  if (count > kMaxNamedSpans)
    texts.push_back(absl::StrCat("and ", count - kMaxNamedSpans, " more"));
  return absl::StrJoin(texts, "; ");
}

void ParameterPage::Reduce() {
  reduced_ = true;
  for (Tree& tree : trees_) tree.Clear();
  previous_.reset();
  spare_ = FloatBuffer();
  next_ = FloatBuffer();
  step_state_ = State::kParked;
  votes_.clear();
  last_votes_.clear();
  for (FloatBuffer& state : state_) state = FloatBuffer();
}

}  // namespace sangam
