#ifndef SANGAM_SERVER_CORE_STEP_TALLY_H_
#define SANGAM_SERVER_CORE_STEP_TALLY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/page_map.h"
#include "proto/parameter_service.pb.h"
#include "proto/plan.pb.h"

namespace sangam {

// Counts what the pages of a job say about a step, at the one server that does (the plan's first).
// When every page of the model has voted on a round, the round is decided: the votes are added in
// the order of segments and pages, in double, so the decision has the same bits whoever holds the
// pages and whoever voted first.
//
// Votes may come again. As long as the round is open they change nothing; once it is decided the
// answer is the decision. Decisions of the newest step and the one before are kept; no page can
// still ask for an older one, because a step begins when all pages have ended the last one.
//
// Pure and not thread-safe. Bounded: two steps of the votes of all pages.
class StepTally {
 public:
  // The rounds that a step has.
  enum class Rounds { kOne = 1, kTwo = 2 };

  struct Answer {
    // None: some page has not voted yet, or the step is long over.
    std::optional<v1::StepDecision> decision;
    // Whether it was made just now; each decision is, once.
    bool news = false;
  };

  // `pages` is that of the plan.
  StepTally(const v1::Plan& plan, const PageMap& pages, Rounds rounds);

  // Errors: Aborted             older generation
  //         FailedPrecondition  later generation
  //         InvalidArgument     votes that do not fit the plan; nothing is counted then
  absl::StatusOr<Answer> Add(const v1::StepVotes& votes);

  uint64_t generation() const { return generation_; }

 private:
  struct Page {
    uint32_t server = 0;
    // ParameterLayout.parameter_index of what the page has a part of, in order.
    std::vector<uint32_t> parameter;
  };
  struct OpenRound {
    std::vector<std::optional<v1::PageVote>> vote;  // by page
    size_t missing = 0;
  };
  using RoundKey = std::pair<uint64_t, uint32_t>;  // step, round

  absl::Status Check(const v1::StepVotes& votes) const;
  absl::Status CheckPage(const v1::StepVotes& votes, const v1::PageVote& vote) const;
  // REQUIRES: CheckPage is OK.
  size_t IndexOf(const v1::PageVote& vote) const {
    return first_page_[vote.segment()] + vote.page();
  }
  void BeginStep(uint64_t step);
  v1::StepDecision Decide(const RoundKey& key, const OpenRound& round) const;

  const uint64_t job_;
  const uint32_t rounds_;
  const uint64_t generation_;
  uint32_t num_parameters_ = 0;
  std::vector<size_t> first_page_;  // by segment, and one more: the number of all
  std::vector<Page> pages_;
  // Of the votes so far.
  std::optional<uint64_t> newest_step_;
  std::map<RoundKey, OpenRound> open_;
  std::map<RoundKey, v1::StepDecision> decided_;
};

// Parameters that elements [first, first + count) of a segment have a part of, in order.
std::vector<uint32_t> ParametersWithin(const v1::SegmentLayout& segment, uint64_t first,
                                       uint64_t count);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_STEP_TALLY_H_
