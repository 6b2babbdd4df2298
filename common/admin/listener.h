#ifndef SANGAM_COMMON_ADMIN_LISTENER_H_
#define SANGAM_COMMON_ADMIN_LISTENER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/rpc/host_port.h"

namespace sangam {

// A TCP socket that listens. Thread-safe.
class Listener {
 public:
  // `listen`: "host:port"; port 0: one that is free; empty host: all addresses.
  // Errors: InvalidArgument     malformed address
  //         FailedPrecondition  cannot listen there; says why
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const std::string& listen);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // With the port that was chosen.
  const HostPort& address() const { return address_; }

  // The next connection, which does not block, or -1 when there is none. The caller closes it.
  int Accept() const;

  // Readable when there is one.
  int fd() const { return fd_; }

 private:
  Listener(int fd, HostPort address) : fd_(fd), address_(std::move(address)) {}

  const int fd_;
  const HostPort address_;
};

// The numeric address of the other end; empty when it is not known.
std::string PeerHost(int fd);

}  // namespace sangam

#endif  // SANGAM_COMMON_ADMIN_LISTENER_H_
