#include "server/core/step_tally.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/plan/page_map.h"
#include "proto/model.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/parameter_page.h"

namespace sangam {
namespace {

// Faults that a decision names; a gradient that overflows often does so in every block.
constexpr int kMaxFaults = 4;

}  // namespace

std::vector<uint32_t> ParametersWithin(const v1::SegmentLayout& segment, uint64_t first,
                                       uint64_t count) {
  std::vector<uint32_t> parameters;
  for (const v1::ParameterLayout& parameter : segment.parameter()) {
    const uint64_t begin = std::max(parameter.offset(), first);
    const uint64_t end = std::min(parameter.offset() + parameter.element_count(), first + count);
    if (begin < end) parameters.push_back(parameter.parameter_index());
  }
  return parameters;
}

StepTally::StepTally(const v1::Plan& plan, const PageMap& pages, Rounds rounds)
    : job_(plan.job()), rounds_(static_cast<uint32_t>(rounds)), generation_(plan.generation()) {
  for (const v1::SegmentLayout& segment : plan.layout().segment()) {
    for (const v1::ParameterLayout& parameter : segment.parameter()) {
      num_parameters_ = std::max(num_parameters_, parameter.parameter_index() + 1);
    }
  }
  for (uint32_t s = 0; s < pages.num_segments(); ++s) {
    first_page_.push_back(pages_.size());
    for (const PageRange& page : pages.pages(s)) {
      pages_.push_back({page.server, ParametersWithin(plan.layout().segment(static_cast<int>(s)),
                                                      page.first_element, page.element_count)});
    }
  }
  first_page_.push_back(pages_.size());
}

absl::Status StepTally::Check(const v1::StepVotes& votes) const {
  RETURN_IF_ERROR(CheckGeneration(votes.generation(), generation_));
  if (votes.job() != job_) {
    return absl::InvalidArgumentError(
        absl::StrCat("job: found votes of ", votes.job(), ", expected ", job_));
  }
  if (votes.round() >= rounds_) {
    return absl::InvalidArgumentError(
        absl::StrCat("round: found ", votes.round(), ", expected less than ", rounds_));
  }
  if (newest_step_.has_value() && votes.step() > *newest_step_ + 1) {
    return absl::InvalidArgumentError(absl::StrCat("step: found votes of ", votes.step(),
                                                   ", expected at most ", *newest_step_ + 1));
  }
  for (const v1::PageVote& vote : votes.page()) RETURN_IF_ERROR(CheckPage(votes, vote));
  return absl::OkStatus();
}

absl::Status StepTally::CheckPage(const v1::StepVotes& votes, const v1::PageVote& vote) const {
  if (vote.segment() + uint64_t{1} >= first_page_.size() ||
      vote.page() >= first_page_[vote.segment() + 1] - first_page_[vote.segment()]) {
    return absl::InvalidArgumentError(absl::StrCat("page: found a vote of page ", vote.page(),
                                                   " of segment ", vote.segment(),
                                                   ", which the plan does not have"));
  }
  const Page& page = pages_[IndexOf(vote)];
  if (page.server != votes.server()) {
    return absl::InvalidArgumentError(
        absl::StrCat("server: found a vote of page ", vote.page(), " of segment ", vote.segment(),
                     " from server ", votes.server(), " of the plan, it lies on ", page.server));
  }
  const size_t expected = votes.round() == 0 ? 1 : 2 * page.parameter.size();
  if (static_cast<size_t>(vote.value_size()) != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "value: found ", vote.value_size(), " in a vote of page ", vote.page(), " of segment ",
        vote.segment(), " on round ", votes.round(), ", expected ", expected));
  }
  return absl::OkStatus();
}

void StepTally::BeginStep(uint64_t step) {
  if (newest_step_.has_value() && step <= *newest_step_) return;
  newest_step_ = step;
  const RoundKey oldest = {step == 0 ? 0 : step - 1, 0};
  open_.erase(open_.begin(), open_.lower_bound(oldest));
  decided_.erase(decided_.begin(), decided_.lower_bound(oldest));
}

absl::StatusOr<StepTally::Answer> StepTally::Add(const v1::StepVotes& votes) {
  RETURN_IF_ERROR(Check(votes));
  if (newest_step_.has_value() && votes.step() + 1 < *newest_step_) return Answer();
  BeginStep(votes.step());
  const RoundKey key = {votes.step(), votes.round()};
  if (const auto found = decided_.find(key); found != decided_.end()) {
    return Answer{found->second, false};
  }
  OpenRound& round = open_[key];
  if (round.vote.empty()) {
    round.vote.resize(pages_.size());
    round.missing = pages_.size();
  }
  for (const v1::PageVote& vote : votes.page()) {
    std::optional<v1::PageVote>& place = round.vote[IndexOf(vote)];
    if (place.has_value()) continue;
    place = vote;
    --round.missing;
  }
  if (round.missing > 0) return Answer();
  v1::StepDecision decision = Decide(key, round);
  open_.erase(key);
  decided_[key] = decision;
  return Answer{std::move(decision), true};
}

v1::StepDecision StepTally::Decide(const RoundKey& key, const OpenRound& round) const {
  std::vector<double> sums(key.second == 0 ? 1 : 2 * size_t{num_parameters_}, 0.0);
  std::vector<std::string> faults;
  for (size_t p = 0; p < pages_.size(); ++p) {
    const v1::PageVote& vote = *round.vote[p];
    if (key.second == 0) {
      sums[0] += vote.value(0);
    } else {
      for (size_t i = 0; i < pages_[p].parameter.size(); ++i) {
        const size_t first = 2 * size_t{pages_[p].parameter[i]};
        sums[first] += vote.value(static_cast<int>(2 * i));
        sums[first + 1] += vote.value(static_cast<int>(2 * i + 1));
      }
    }
    if (!vote.fault().empty() &&
        std::find(faults.begin(), faults.end(), vote.fault()) == faults.end()) {
      faults.push_back(vote.fault());
    }
  }
  v1::StepDecision decision;
  decision.set_job(job_);
  decision.set_generation(generation_);
  decision.set_step(key.first);
  decision.set_round(key.second);
  decision.mutable_sum()->Assign(sums.begin(), sums.end());
  const int named = std::min<int>(kMaxFaults, static_cast<int>(faults.size()));
  for (int i = 0; i < named; ++i) decision.add_fault(std::move(faults[i]));
  if (faults.size() > kMaxFaults) {
    decision.add_fault(absl::StrCat("and ", faults.size() - kMaxFaults, " more"));
  }
  return decision;
}

}  // namespace sangam
