#ifndef SANGAM_COMMON_RPC_MISSING_MESSAGES_H_
#define SANGAM_COMMON_RPC_MISSING_MESSAGES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace sangam {

// What gRPC and the system count of one connection, from its beginning.
struct ConnectionCounts {
  std::string peer;                // "ipv4:1.2.3.4:5678"
  uint64_t calls_started = 0;      // by the peer
  uint64_t calls_ended = 0;        // of them
  uint64_t messages_received = 0;  // whole ones
  uint64_t bytes_received = 0;     // of everything
  // Now at a service, which gets a call with its message. Calls of streams in both directions may
  // lack here.
  uint64_t calls_served = 0;
};

// Of the connections of all servers of this process, without the bytes and the calls served.
std::vector<ConnectionCounts> ReadConnectionCounts();

// Finds connections whose calls lack their first message. Every method of ours begins with a
// message of the client; gRPC shows a call to a synchronous service only once it has that message,
// and until then nothing of ours could end it. Connections that are merely quiet owe nothing.
//
// Pure and not thread-safe.
class MissingMessages {
 public:
  explicit MissingMessages(absl::Duration timeout) : timeout_(timeout) {}

  // A look at all connections, `now` on the steady clock. Returns the peers that have owed a
  // message for the whole timeout, while no message came, no call ended, and fewer than kLeastBytes
  // came in.
  std::vector<std::string> Look(const std::vector<ConnectionCounts>& connections,
                                absl::Duration now);

  // A long message over a slow link is on its way as long as there is this much in each timeout.
  static constexpr uint64_t kLeastBytes = 4096;

 private:
  struct Watched {
    // Calls that ended without a message, seen when no call was open. Those that end so later,
    // being refused say, look as if an open call owed its message, unless services have all that
    // are open.
    int64_t without_message = 0;
    uint64_t calls_ended = 0;
    uint64_t messages_received = 0;
    uint64_t bytes_received = 0;
    absl::Duration progress_at;
  };

  const absl::Duration timeout_;
  std::map<std::string, Watched> watched_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_MISSING_MESSAGES_H_
