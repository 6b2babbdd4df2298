#ifndef SANGAM_COMMON_RPC_NODE_AGENT_H_
#define SANGAM_COMMON_RPC_NODE_AGENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/job_log.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"

namespace sangam {

// A daemon's line to the coordinator: registers, heartbeats by long poll, hands over what the
// daemon is to do, and delivers its reports in order. Reconnects and registers again by itself.
// Thread-safe.
class NodeAgent {
 public:
  struct Options {
    std::string coordinator;  // "host:port"
    v1::RegisterRequest registration;
    // How long the first registration may take, all tries together; after it Start fails.
    absl::Duration start_deadline = absl::Seconds(30);
    // How long Start waits for a name that another process holds: when that process was killed, its
    // lease must run out first.
    absl::Duration name_patience = absl::Seconds(15);
    // Asked several times a second while Start waits; true ends it with Cancelled. May be empty.
    std::function<bool()> cancelled;
    // Of each call, besides the time that it waits for news.
    absl::Duration call_deadline = absl::Seconds(5);
    // Reports that may wait for the coordinator; then Report waits too, so that the daemon stands
    // still until the coordinator is back.
    size_t max_reports = 65536;
    // Lines for the coordinator, sent several at a time when no report waits. May be nullptr; must
    // outlive the agent.
    JobLog* log = nullptr;
  };

  // Called on a thread of its own with everything that the daemon must hold now, each time it
  // changes, and again when the daemon had to register again. While a call takes its time the agent
  // goes on sending signs of life; of what changes meanwhile only the last state is handed over.
  // May call Report; must not call Leave.
  using OnAssignments = std::function<void(const std::vector<v1::Assignment>&)>;

  // Registers, then goes on in the background.
  // Errors: Unavailable      the coordinator could not be reached; says what was tried and how long
  //         InvalidArgument  its address is not "host:port"
  //         Cancelled        Options.cancelled said so
  //         others           as ClusterService.Register
  static absl::StatusOr<std::unique_ptr<NodeAgent>> Start(Options options,
                                                          OnAssignments on_assignments);
  virtual ~NodeAgent() = default;

  // Queues a report; returns at once unless Options.max_reports wait, then when there is room.
  // Several reports of one job travel in one call. A report may be delivered twice, never out of
  // order.
  virtual void Report(uint64_t job, uint64_t generation, v1::JobReport report) = 0;

  // From now on Report waits no more; what there is no room for is dropped. For a daemon that ends:
  // before it waits for the threads that report.
  virtual void EndWaits() = 0;

  // OK while the agent works; why it cannot go on otherwise (another incarnation took the name).
  // The daemon should end.
  virtual absl::Status stopped() const = 0;

  // The daemon is to end: from now on the coordinator gives it no new jobs and has those that it
  // holds go on elsewhere. Waits until no job needs it any more, at most `timeout`; it works on
  // meanwhile. Returns whether that is so; no sooner than `timeout` only when a coordinator is
  // there to answer, and the agent has not stopped. Leave is to follow.
  virtual bool Drain(absl::Duration timeout) = 0;
  // Whether Drain was called.
  virtual bool draining() const = 0;

  // Delivers waiting reports and says goodbye, at most for `deadline`, then stops the threads, for
  // which it waits until a callback that is under way returns. No callback runs afterwards. The
  // destructor does it with a short deadline when it was not called.
  virtual void Leave(const std::string& reason, absl::Duration deadline) = 0;

  // The address as others will see it (RegisterResponse.address).
  virtual std::string address() const = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_NODE_AGENT_H_
