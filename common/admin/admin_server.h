#ifndef SANGAM_COMMON_ADMIN_ADMIN_SERVER_H_
#define SANGAM_COMMON_ADMIN_ADMIN_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/host_port.h"

namespace sangam {

// What the pages hold. Each is called on any thread, several at once, and must not wait for others:
// a probe that takes too long counts as a failed one.
struct AdminPages {
  // Empty: the process is alive; else what is stuck. Knows nothing of other processes, and nothing
  // of work that may take long: whoever asks ends the process when it is not alive.
  std::function<std::string()> not_live;
  // Empty: ready for work; else why it is not.
  std::function<std::string()> not_ready;
  std::function<std::string()> metrics;  // in Prometheus' text format
  std::function<std::string()> status;   // JSON
};

// Lets people and machines look at a daemon, over HTTP:
//   /livez     200 "ok", 503 and what is stuck
//   /readyz    200 "ok", 503 and why not
//   /metrics   for Prometheus
//   /statusz   JSON
//   /loglevel  GET: the level; PUT ?level=debug: another one, for callers on this machine
// Nothing else changes anything. Programs of this machine are answered with more than probes only
// where they ask for an address, localhost or a name without dots: a browser's page of another name
// is nobody to tell. One request a connection. Bounded whatever comes: threads, waiting
// connections, a connection's time and bytes. Thread-safe.
class AdminServer {
 public:
  struct Options {
    std::string listen;  // "host:port"; port 0: one that is free
    size_t threads = 4;  // requests that are answered at once
    // Connections that have not said anything; then the oldest goes. And as many that wait for a
    // thread; more are closed.
    size_t max_waiting = 64;
    // Of a connection, from the time when a thread takes it.
    absl::Duration deadline = absl::Seconds(5);
    size_t max_request_bytes = size_t{32} * 1024;
  };

  // Answers at once, and logs where.
  // Errors: InvalidArgument     malformed address
  //         FailedPrecondition  cannot listen there; says why
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(const Options& options,
                                                            AdminPages pages);
  // Ends what is under way within a deadline's time.
  virtual ~AdminServer() = default;

  // Where it listens, with the port that was chosen.
  virtual const HostPort& address() const = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_ADMIN_ADMIN_SERVER_H_
