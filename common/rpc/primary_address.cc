#include "common/rpc/primary_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace sangam {

std::string PrimaryAddress() {
  std::string none = "127.0.0.1";
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return none;
  // Connecting a datagram socket only chooses a route. The address is of TEST-NET-1 (RFC 5737):
  // never a neighbour's, so the default route is taken.
  sockaddr_in away = {};
  away.sin_family = AF_INET;
  away.sin_port = htons(9);
  inet_pton(AF_INET, "192.0.2.1", &away.sin_addr);
  sockaddr_in own = {};
  socklen_t length = sizeof(own);
  std::array<char, INET_ADDRSTRLEN> text = {};
  const bool found = connect(fd, reinterpret_cast<const sockaddr*>(&away), sizeof(away)) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
                     inet_ntop(AF_INET, &own.sin_addr, text.data(), text.size()) != nullptr;
  close(fd);
  return found ? text.data() : none;
}

}  // namespace sangam
