#ifndef SANGAM_SERVER_RUNTIME_VOTE_LINK_H_
#define SANGAM_SERVER_RUNTIME_VOTE_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "proto/parameter_service.pb.h"

// What the votes of one job on one server are exchanged through. Implemented over gRPC in
// server/rpc.
namespace sangam {

// Where the decisions for another server go: one stream. Send never blocks, may be called on any
// thread, and is called with no lock held.
class DecisionSink {
 public:
  virtual ~DecisionSink() = default;
  virtual void Send(std::shared_ptr<const v1::StepDecision> decision) = 0;
};

// The server that counts, as the streams of the others see it. Thread-safe.
class VoteCounter {
 public:
  virtual ~VoteCounter() = default;

  // The first message of a stream, which gets the decisions from now on.
  // Errors: see ParameterService.Vote
  virtual absl::Status AddVoter(const v1::StepVotes& hello,
                                const std::shared_ptr<DecisionSink>& sink) = 0;
  virtual void RemoveVoter(const DecisionSink* sink) = 0;
  // Name of a server of the plan, by index; empty: there is none.
  virtual std::string NameOf(uint32_t server) const = 0;

  // Counts; what is decided already is answered to `sink`.
  // Errors: see ParameterService.Vote
  virtual absl::Status AddVotes(const v1::StepVotes& votes,
                                const std::shared_ptr<DecisionSink>& sink) = 0;
};

// A server that does not count, as its link to the one that does sees it. Thread-safe. Calls for a
// generation that is over change nothing.
class VoteSource {
 public:
  virtual ~VoteSource() = default;

  // A new stream begins: NextVotes is to give everything that may still be undecided.
  virtual void SendAgain(uint64_t generation) = 0;
  // Some of the votes that wait, or nothing; the link asks again after a Wake.
  virtual std::optional<v1::StepVotes> NextVotes(uint64_t generation) = 0;
  // Errors: InvalidArgument  a decision that does not fit
  virtual absl::Status OnDecision(const v1::StepDecision& decision) = 0;
  // The link is broken for good.
  virtual void OnLinkFailed(uint64_t generation, const absl::Status& status) = 0;
};

// A connection that is opened again when it is lost. Thread-safe.
class VoteLink {
 public:
  virtual ~VoteLink() = default;
  // NextVotes may have something.
  virtual void Wake() = 0;
  // Ends it. Does not wait; calls that are under way may still come.
  virtual void Close() = 0;
};

struct VoteLinkOptions {
  // Name and "host:port" of the server that counts.
  std::string server;
  std::string address;
  // First message of every stream.
  v1::StepVotes hello;
};

using VoteLinkFactory = std::function<std::shared_ptr<VoteLink>(VoteLinkOptions options,
                                                                std::weak_ptr<VoteSource> source)>;

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_VOTE_LINK_H_
