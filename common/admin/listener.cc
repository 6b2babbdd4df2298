#include "common/admin/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"

namespace sangam {
namespace {

// Connections that the system keeps while all threads are busy.
constexpr int kBacklog = 32;

absl::Status CannotListen(const std::string& listen, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", listen, ": ", why));
}

uint16_t PortOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const std::string& listen) {
  ASSIGN_OR_RETURN(HostPort address, ParseHostPort(listen));
  if (address.host.empty()) address.host = "0.0.0.0";
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) return CannotListen(listen, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return CannotListen(listen, std::strerror(errno));
  const int on = 1;
  // A daemon that starts again need not wait for the last one's connections.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage bound = {};
  socklen_t length = sizeof(bound);
  if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd, kBacklog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    const std::string why = std::strerror(errno);
    close(fd);
    return CannotListen(listen, why);
  }
  address.port = PortOf(bound);
  return std::unique_ptr<Listener>(new Listener(fd, std::move(address)));
}

Listener::~Listener() { close(fd_); }

int Listener::Accept() const {
  return accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

std::string PeerHost(int fd) {
  sockaddr_storage peer = {};
  socklen_t length = sizeof(peer);
  std::array<char, NI_MAXHOST> host = {};
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&peer), length, host.data(), host.size(),
                  nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  const std::string name = host.data();
  // IPv4 in the clothes of IPv6.
  return absl::StartsWith(name, "::ffff:") ? name.substr(7) : name;
}

}  // namespace sangam
