#ifndef SANGAM_COMMON_RPC_HOST_PORT_H_
#define SANGAM_COMMON_RPC_HOST_PORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sangam {

// Where something listens or is to be reached.
struct HostPort {
  std::string host;  // a name or an address, IPv6 without brackets; may be empty
  uint16_t port = 0;
};

// Reads "host:port", "[ipv6]:port" or ":port".
// Errors: InvalidArgument  anything else; says what was found
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// As ParseHostPort, for something to connect to: with a host, and a port other than 0.
absl::StatusOr<HostPort> ParseTarget(absl::string_view text);

// "host:port", with brackets around IPv6.
std::string ToString(const HostPort& address);

// Host of a peer as gRPC names it: "ipv4:10.0.0.1:39000", "ipv6:%5B::1%5D:39000", "unix:...", the
// last one counts as 127.0.0.1. An IPv4 address in the clothes of IPv6 comes back as IPv4.
// Errors: InvalidArgument  another form
absl::StatusOr<std::string> HostOfPeer(absl::string_view peer);

// The same with the port.
// Errors: InvalidArgument  another form, or one without a port
absl::StatusOr<HostPort> ParsePeer(absl::string_view peer);

// Whether only this machine can reach the address: 127.x.x.x, ::1 or "localhost".
bool IsLoopback(absl::string_view host);

// Whether it stands for all addresses of the machine: empty, 0.0.0.0 or ::.
bool IsWildcard(absl::string_view host);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_HOST_PORT_H_
