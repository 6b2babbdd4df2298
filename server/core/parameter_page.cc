#include "server/core/parameter_page.h"

#include <algorithm>
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
#include "common/plan/span.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "server/core/optimizer.h"
#include "server/core/parked_sum.h"
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
  for (const ElementRange& range : options.decay) {
    if (range.begin < done || range.end <= range.begin || range.end > options.element_count) {
      return absl::InvalidArgumentError(absl::StrCat("page: found decay on [", range.begin, ",",
                                                     range.end, "), expected sorted ranges in [",
                                                     done, ",", options.element_count, ")"));
    }
    done = range.end;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckGeneration(uint64_t found, uint64_t current) {
  if (found < current) {
    return absl::AbortedError(absl::StrCat("generation: found ", found, ", expected ", current,
                                           ": ask the coordinator for the plan"));
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
  ParameterPage page(std::move(options), optimizer);
  page.current_.weights = std::move(initial);
  const uint64_t count = page.options_.element_count;
  ASSIGN_OR_RETURN(page.spare_, FloatBuffer::Allocate(count));
  for (int i = 0; i < optimizer.state_count(); ++i) {
    ASSIGN_OR_RETURN(page.state_[i], FloatBuffer::Allocate(count));
  }
  return page;
}

absl::StatusOr<ParameterPage> ParameterPage::Restore(Options options, const Optimizer& optimizer,
                                                     PageState state) {
  RETURN_IF_ERROR(CheckOptions(options, state.weights));
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

PageState ParameterPage::Snapshot() const {
  return {current_.step, updates_, current_.weights, state_};
}

uint64_t ParameterPage::MemoryBytes(uint64_t element_count, const Optimizer& optimizer) {
  return element_count * (2 + optimizer.state_count()) * sizeof(float);
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
  ASSIGN_OR_RETURN(const auto result,
                   trees_[key.use].Add(
                       key.span, ParkedSum({key.span, key.samples, std::move(elements), key.use})));
  if (result == Tree::Result::kCovered) {
    ++ignored_.covered;
    return Effects();
  }
  if (!Complete()) return Effects();
  ASSIGN_OR_RETURN(const StepSum sum, TakeSum());
  return Update(sum);
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
    target = std::move(previous_->weights);
    previous_.reset();
  }
  // A reader who still holds it keeps it; it is freed when the reader lets go.
  if (target.unique()) return target;
  return FloatBuffer::Allocate(options_.element_count);
}

absl::Status ParameterPage::OwnState() {
  for (int i = 0; i < optimizer_.state_count(); ++i) {
    if (state_[i].unique()) continue;
    ASSIGN_OR_RETURN(FloatBuffer own, FloatBuffer::Allocate(options_.element_count));
    std::copy_n(state_[i].data(), options_.element_count, own.data());
    state_[i] = std::move(own);
  }
  return absl::OkStatus();
}

absl::StatusOr<ParameterPage::Effects> ParameterPage::Update(const StepSum& sum) {
  ASSIGN_OR_RETURN(FloatBuffer next, TakeTarget(), "%s", Name());
  // Two passes over a page that stays in the cache instead of one: the optimizer changes its state
  // in place, so it must not begin before the whole gradient is known to be finite.
  const VectorKernels& kernels = FastestKernels();
  const uint64_t count = options_.element_count;
  if (!sum.sum.Mean(count, static_cast<float>(sum.samples), next.data(), kernels)) {
    spare_ = std::move(next);
    return NotFinite(sum.sum);
  }
  if (absl::Status owned = OwnState(); !owned.ok()) {
    spare_ = std::move(next);
    return owned;
  }
  Optimizer::Elements elements;
  elements.count = count;
  elements.weights = current_.weights.data();
  for (int i = 0; i < optimizer_.state_count(); ++i) elements.state[i] = state_[i].data();
  elements.next = next.data();
  elements.decay = &options_.decay;
  optimizer_.Update(updates_, elements, kernels);
  ++updates_;

  const uint64_t step = current_.step + 1;
  previous_ = std::move(current_);
  current_ = {step, std::move(next)};
  return Effects{current_};
}

absl::Status ParameterPage::NotFinite(const ParkedSum& sum) const {
  std::vector<std::string> names;
  for (const ParkedGradient* gradient : sum.NonFinite()) {
    names.push_back(ToString(gradient->span));
    if (options_.uses > 1) absl::StrAppend(&names.back(), " of use ", gradient->use);
  }
  const size_t count = names.size();
  if (count > kMaxNamedSpans) {
    names.resize(kMaxNamedSpans);
    names.push_back(absl::StrCat("and ", count - kMaxNamedSpans, " more"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Name(), ", step ", current_.step, ": the gradient is not finite: ",
                   names.empty() ? "the sum of finite payloads overflows"
                                 : absl::StrCat("payload of shares ", absl::StrJoin(names, ", "))));
}

void ParameterPage::BeginGeneration(uint64_t generation) {
  if (generation <= options_.generation) return;
  options_.generation = generation;
  for (Tree& tree : trees_) tree.Clear();
}

void ParameterPage::Reduce() {
  reduced_ = true;
  for (Tree& tree : trees_) tree.Clear();
  previous_.reset();
  spare_ = FloatBuffer();
  for (FloatBuffer& state : state_) state = FloatBuffer();
}

}  // namespace sangam
