#ifndef SANGAM_COMMON_RPC_CONNECTION_GATE_H_
#define SANGAM_COMMON_RPC_CONNECTION_GATE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/host_port.h"

namespace sangam {

// Accepts connections in place of gRPC, and hands each to it once the peer has sent something: in
// HTTP/2 and in TLS it is the client that speaks first.
//
// It is here for what gRPC 1.51 cannot do. That accepts as many connections as there are file
// descriptors, and after the first accept that fails for want of one it never accepts again. Here
// the number is bounded, below what the process may open; connections that are silent wait apart
// from those that are used, take nothing of gRPC's memory, and make room for newer ones, so that
// nobody can keep others out by opening connections and saying nothing. What is too much is closed
// at once: a client sees UNAVAILABLE and tries again. Thread-safe.
class ConnectionGate {
 public:
  struct Options {
    // Handed over and still open; fewer when the process may open fewer files.
    size_t max_connections = 2048;
    // How long a connection may be silent at its beginning.
    absl::Duration silent_timeout = absl::Seconds(10);
    // Sent and not acknowledged for this long: the connection is dead.
    absl::Duration unacknowledged_timeout = absl::Seconds(20);
    // TLS is spoken here: who begins with anything else is told so, in a TLS alert, and closed.
    bool tls = false;
    // Told of every connection that has said something, on the gate's thread: whether it was handed
    // over, or why not. May be empty.
    std::function<void(const HostPort& peer, const absl::Status& result)> on_connection;
    // Called on the gate's thread, again and again.
    std::function<void()> look;
    absl::Duration look_interval = absl::Seconds(5);
    RefusalCounts* counts = nullptr;  // may be nullptr; outlives the gate
  };

  // Takes the descriptors of the listener and of a connection; the latter is the callee's.
  using HandOver = std::function<void(int listener, int connection)>;

  // Binds to the one address that `listen.host` stands for, IPv4 first (a wildcard: to all), and
  // queues connections from now on.
  // Errors: FailedPrecondition  cannot listen there; names the address and the system's reason
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(const HostPort& listen,
                                                                const Options& options);
  // As Stop.
  ~ConnectionGate();

  // With the port that was chosen.
  const HostPort& address() const { return address_; }

  // Hands connections over from now on, on a thread of its own.
  void Start(HandOver hand_over);
  // Accepts no more; closes the listener and what is silent.
  void Stop();

  // Breaks off a connection that was handed over. False: it is not open any more.
  bool Break(const HostPort& peer);

  // Of all that came on a connection that was handed over; 0: it is not open any more.
  uint64_t BytesReceived(const HostPort& peer) const;

  // Handed over and still open.
  size_t num_open() const;
  // As it was cut to fit the process.
  size_t max_connections() const { return max_connections_; }
  size_t max_silent() const { return max_silent_; }

 private:
  struct Silent {
    int fd = -1;
    absl::Duration deadline;
  };
  // A descriptor and the number of the socket behind it: by both it is the same connection. Whoever
  // has it closes it, and the descriptor's number may then become another file's.
  struct Open {
    int fd = -1;
    ino_t inode = 0;
    bool StillOpen() const;
  };

  ConnectionGate(int listener, HostPort address, const Options& options);
  void Run();
  void AcceptAll();
  // No descriptor is left: drops a connection rather than leave it in the queue for ever.
  bool MakeRoom();
  void Add(int fd);
  void DropOldestSilent();
  void DropLate(absl::Duration now);
  // Looks who has said something; `ready`: by silent_.
  void HandOverReady(const std::vector<bool>& ready);
  // Refuses when there are too many, or when `first`, its first byte, does not begin TLS.
  void Pass(int fd, uint8_t first);
  absl::Status Place(int fd, const HostPort& peer);
  // Of a listener on several addresses one peer can have as many connections from one port.
  std::vector<int> FindOpen(const HostPort& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  int listener_;
  const HostPort address_;
  const Options options_;
  size_t max_connections_ = 0;
  size_t max_silent_ = 0;
  int wake_;
  // Kept open to be given up when there is no other descriptor.
  int spare_;
  HandOver hand_over_;
  std::thread thread_;
  std::deque<Silent> silent_;  // of the thread; oldest first
  absl::Duration next_look_;   // of the thread

  mutable Mutex mutex_;
  // By the peer, "host:port".
  mutable std::multimap<std::string, Open> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_CONNECTION_GATE_H_
