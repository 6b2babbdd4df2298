#ifndef SANGAM_SERVER_RUNTIME_VOTE_EXCHANGE_H_
#define SANGAM_SERVER_RUNTIME_VOTE_EXCHANGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/plan/page_map.h"
#include "proto/parameter_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/parameter_page.h"
#include "server/core/step_rules.h"
#include "server/core/step_tally.h"
#include "server/runtime/vote_link.h"

namespace sangam {

// The votes of one job's pages on this server, on their way to a decision: on the plan's first
// server they are counted together with those of the others, elsewhere they go there through a
// link. Thread-safe; calls out with no lock held.
class VoteExchange final : public VoteCounter,
                           public VoteSource,
                           public std::enable_shared_from_this<VoteExchange> {
 public:
  // Whose pages they are. Thread-safe.
  class Host {
   public:
    virtual ~Host() = default;
    // Of all pages, on the steps that may still be undecided somewhere.
    virtual std::vector<ParameterPage::Vote> Votes() const = 0;
    // For all pages; must not wait for them.
    virtual void OnDecision(std::shared_ptr<const v1::StepDecision> decision) = 0;
    // Only where votes are counted; once for each decision.
    virtual void OnSkippedStep(uint64_t generation, uint64_t step, const std::string& why) = 0;
    // The job cannot go on.
    virtual void OnVotesFailed(uint64_t generation, const absl::Status& status) = 0;
  };

  // `server`: this server's index in the plan.
  VoteExchange(const v1::Plan& plan, const PageMap& pages, uint32_t server, const StepRules& rules,
               VoteLinkFactory open_link, std::weak_ptr<Host> host);
  ~VoteExchange() override;

  // All servers are ready: connects to the one that counts.
  void Run();
  // The job is over: ends the link.
  void End();

  // A page of this server has voted. Of a generation that is over: nothing.
  void Add(const ParameterPage::Vote& vote);

  // Whether votes are counted here.
  bool counts() const { return server_ == 0; }

  // VoteCounter.
  absl::Status AddVoter(const v1::StepVotes& hello,
                        const std::shared_ptr<DecisionSink>& sink) override;
  void RemoveVoter(const DecisionSink* sink) override;
  std::string NameOf(uint32_t server) const override;
  absl::Status AddVotes(const v1::StepVotes& votes,
                        const std::shared_ptr<DecisionSink>& sink) override;

  // VoteSource.
  void SendAgain(uint64_t generation) override;
  std::optional<v1::StepVotes> NextVotes(uint64_t generation) override;
  absl::Status OnDecision(const v1::StepDecision& decision) override;
  void OnLinkFailed(uint64_t generation, const absl::Status& status) override;

 private:
  // Step, round, segment, page.
  using VoteKey = std::tuple<uint64_t, uint32_t, uint32_t, uint32_t>;

  absl::Status Count(const v1::StepVotes& votes, const std::shared_ptr<DecisionSink>& sink);
  absl::Status CheckVoter(const v1::StepVotes& hello) const;
  std::shared_ptr<VoteLink> TakeLink() ABSL_LOCKS_EXCLUDED(mutex_);

  const uint64_t job_;
  const uint32_t server_;
  const StepRules rules_;
  const VoteLinkFactory open_link_;
  const std::weak_ptr<Host> host_;
  // Of the plan.
  const uint64_t generation_;
  const uint64_t schema_hash_;
  const std::vector<v1::ServerPlan> servers_;

  mutable Mutex mutex_;
  // Where votes are counted:
  StepTally tally_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<DecisionSink>> voters_ ABSL_GUARDED_BY(mutex_);
  // Elsewhere: what waits to be sent. At most the votes of two steps, because no page goes further
  // without a decision.
  std::map<VoteKey, v1::PageVote> waiting_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<VoteLink> link_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_VOTE_EXCHANGE_H_
