#include "server/runtime/vote_exchange.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/plan/page_map.h"
#include "proto/parameter_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/parameter_page.h"
#include "server/core/step_rules.h"
#include "server/core/step_tally.h"
#include "server/runtime/vote_link.h"

namespace sangam {
namespace {

// Of one message: it stays well below the bound of a data connection.
constexpr int kMaxPagesPerMessage = 4096;
constexpr int kMaxValuesPerMessage = 65536;

}  // namespace

VoteExchange::VoteExchange(const v1::Plan& plan, const PageMap& pages, uint32_t server,
                           const StepRules& rules, VoteLinkFactory open_link,
                           std::weak_ptr<Host> host)
    : job_(plan.job()),
      server_(server),
      rules_(rules),
      open_link_(std::move(open_link)),
      host_(std::move(host)),
      generation_(plan.generation()),
      schema_hash_(plan.schema_hash()),
      servers_(plan.server().begin(), plan.server().end()),
      tally_(plan, pages, rules.trust_ratios ? StepTally::Rounds::kTwo : StepTally::Rounds::kOne) {}

VoteExchange::~VoteExchange() {
  if (const std::shared_ptr<VoteLink> link = TakeLink()) link->Close();
}

std::shared_ptr<VoteLink> VoteExchange::TakeLink() {
  MutexLock lock(&mutex_);
  return std::exchange(link_, nullptr);
}

void VoteExchange::Run() {
  if (counts()) return;
  VoteLinkOptions options;
  {
    MutexLock lock(&mutex_);
    if (ended_ || link_ != nullptr) return;
    options.server = servers_[0].name();
    options.address = servers_[0].address();
    options.hello.set_job(job_);
    options.hello.set_generation(generation_);
    options.hello.set_server(server_);
    options.hello.set_protocol_version(kProtocolVersion);
    options.hello.set_schema_hash(schema_hash_);
    options.hello.set_incarnation(servers_[server_].incarnation());
  }
  // It may call at once, so no lock is held.
  std::shared_ptr<VoteLink> link = open_link_(std::move(options), weak_from_this());
  bool kept = false;
  {
    MutexLock lock(&mutex_);
    kept = !ended_ && link_ == nullptr;
    if (kept) link_ = link;
  }
  // A page that voted in between found no link to wake.
  if (kept) {
    link->Wake();
  } else {
    link->Close();
  }
}

void VoteExchange::End() {
  std::vector<std::shared_ptr<DecisionSink>> voters;
  {
    MutexLock lock(&mutex_);
    ended_ = true;
    voters.swap(voters_);
    waiting_.clear();
  }
  if (const std::shared_ptr<VoteLink> link = TakeLink()) link->Close();
}

void VoteExchange::Add(const ParameterPage::Vote& vote) {
  if (counts()) {
    v1::StepVotes votes;
    votes.set_job(job_);
    votes.set_generation(vote.generation);
    votes.set_step(vote.step);
    votes.set_round(vote.round);
    votes.set_server(server_);
    *votes.add_page() = vote.vote;
    const absl::Status status = Count(votes, nullptr);
    // Of an older generation, or of a job that is over: nobody waits for it.
    if (status.ok() || absl::IsAborted(status) || absl::IsNotFound(status)) return;
    if (const auto host = host_.lock()) host->OnVotesFailed(vote.generation, status);
    return;
  }
  std::shared_ptr<VoteLink> link;
  {
    MutexLock lock(&mutex_);
    if (ended_ || vote.generation != generation_) return;
    waiting_[{vote.step, vote.round, vote.vote.segment(), vote.vote.page()}] = vote.vote;
    link = link_;
  }
  if (link != nullptr) link->Wake();
}

absl::Status VoteExchange::Count(const v1::StepVotes& votes,
                                 const std::shared_ptr<DecisionSink>& sink) {
  std::shared_ptr<const v1::StepDecision> decision;
  std::vector<std::shared_ptr<DecisionSink>> sinks;
  bool news = false;
  {
    MutexLock lock(&mutex_);
    if (ended_) {
      return absl::NotFoundError(absl::StrCat("job ", job_, ": it has ended on this server"));
    }
    ASSIGN_OR_RETURN(StepTally::Answer answer, tally_.Add(votes));
    if (!answer.decision.has_value()) return absl::OkStatus();
    decision = std::make_shared<const v1::StepDecision>(*std::move(answer.decision));
    news = answer.news;
    if (news) {
      sinks = voters_;
    } else if (sink != nullptr) {
      sinks.push_back(sink);
    }
  }
  const std::shared_ptr<Host> host = news ? host_.lock() : nullptr;
  // First of all, so that the reports of two steps keep their order.
  if (host != nullptr && decision->round() == 0 && rules_.skip_not_finite &&
      !std::isfinite(decision->sum(0))) {
    host->OnSkippedStep(decision->generation(), decision->step(),
                        absl::StrJoin(decision->fault(), "; "));
  }
  for (const std::shared_ptr<DecisionSink>& one : sinks) one->Send(decision);
  if (host != nullptr) host->OnDecision(decision);
  return absl::OkStatus();
}

absl::Status VoteExchange::CheckVoter(const v1::StepVotes& hello) const {
  if (hello.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("protocol version: server ", hello.server(),
                                                      " of the plan has ", hello.protocol_version(),
                                                      ", this server has ", kProtocolVersion));
  }
  RETURN_IF_ERROR(CheckGeneration(hello.generation(), generation_));
  if (hello.server() == 0 || hello.server() >= servers_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("server: found ", hello.server(), ", expected 1 to ", servers_.size() - 1));
  }
  const v1::ServerPlan& server = servers_[hello.server()];
  if (hello.incarnation() != server.incarnation()) {
    return absl::AbortedError(absl::StrCat("incarnation of server '", server.name(), "': found ",
                                           hello.incarnation(), ", the plan has ",
                                           server.incarnation()));
  }
  if (hello.schema_hash() != schema_hash_) {
    return absl::FailedPreconditionError(absl::StrCat("schema of job ", job_, ": server '",
                                                      server.name(), "' has ", hello.schema_hash(),
                                                      ", this server has ", schema_hash_));
  }
  return absl::OkStatus();
}

absl::Status VoteExchange::AddVoter(const v1::StepVotes& hello,
                                    const std::shared_ptr<DecisionSink>& sink) {
  MutexLock lock(&mutex_);
  if (ended_ || !counts()) {
    return absl::NotFoundError(
        absl::StrCat("job ", job_, ": this server does not count its votes"));
  }
  RETURN_IF_ERROR(CheckVoter(hello));
  voters_.push_back(sink);
  return absl::OkStatus();
}

std::string VoteExchange::NameOf(uint32_t server) const {
  MutexLock lock(&mutex_);
  return server < servers_.size() ? servers_[server].name() : "";
}

void VoteExchange::RemoveVoter(const DecisionSink* sink) {
  // The last handle of a sink must not end under the lock: its destructor is not ours.
  std::shared_ptr<DecisionSink> removed;
  MutexLock lock(&mutex_);
  const auto found =
      std::find_if(voters_.begin(), voters_.end(),
                   [sink](const std::shared_ptr<DecisionSink>& one) { return one.get() == sink; });
  if (found == voters_.end()) return;
  removed = std::move(*found);
  voters_.erase(found);
}

absl::Status VoteExchange::AddVotes(const v1::StepVotes& votes,
                                    const std::shared_ptr<DecisionSink>& sink) {
  return Count(votes, sink);
}

void VoteExchange::SendAgain(uint64_t generation) {
  const std::shared_ptr<Host> host = host_.lock();
  if (host == nullptr) return;
  // What a page says meanwhile comes by Add.
  std::vector<ParameterPage::Vote> votes = host->Votes();
  MutexLock lock(&mutex_);
  if (ended_ || generation != generation_) return;
  for (ParameterPage::Vote& vote : votes) {
    if (vote.generation != generation) continue;
    waiting_[{vote.step, vote.round, vote.vote.segment(), vote.vote.page()}] = std::move(vote.vote);
  }
}

std::optional<v1::StepVotes> VoteExchange::NextVotes(uint64_t generation) {
  MutexLock lock(&mutex_);
  if (ended_ || generation != generation_ || waiting_.empty()) return std::nullopt;
  v1::StepVotes votes;
  votes.set_job(job_);
  votes.set_generation(generation);
  votes.set_server(server_);
  votes.set_step(std::get<0>(waiting_.begin()->first));
  votes.set_round(std::get<1>(waiting_.begin()->first));
  int values = 0;
  while (!waiting_.empty() && votes.page_size() < kMaxPagesPerMessage &&
         values < kMaxValuesPerMessage) {
    const auto first = waiting_.begin();
    if (std::get<0>(first->first) != votes.step() || std::get<1>(first->first) != votes.round()) {
      break;
    }
    values += first->second.value_size();
    *votes.add_page() = std::move(first->second);
    waiting_.erase(first);
  }
  return votes;
}

absl::Status VoteExchange::OnDecision(const v1::StepDecision& decision) {
  if (decision.job() != job_) {
    return absl::InvalidArgumentError(
        absl::StrCat("job: found a decision of ", decision.job(), ", expected ", job_));
  }
  {
    MutexLock lock(&mutex_);
    if (ended_ || decision.generation() != generation_) return absl::OkStatus();
  }
  if (const auto host = host_.lock()) {
    host->OnDecision(std::make_shared<const v1::StepDecision>(decision));
  }
  return absl::OkStatus();
}

void VoteExchange::OnLinkFailed(uint64_t generation, const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (ended_ || generation != generation_) return;
  }
  if (const auto host = host_.lock()) host->OnVotesFailed(generation, status);
}

}  // namespace sangam
