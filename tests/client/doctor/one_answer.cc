#include "tests/client/doctor/one_answer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sangam::testing {
namespace {

int ListenOnLoopback(uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd, 16) != 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::abort();
  }
  *port = ntohs(address.sin_port);
  return fd;
}

}  // namespace

OneAnswer::OneAnswer(std::string answer, char only_to)
    : answer_(std::move(answer)), only_to_(only_to) {
  listener_ = ListenOnLoopback(&port_);
  stop_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Serve(); });
}

OneAnswer::~OneAnswer() {
  const uint64_t one = 1;
  if (write(stop_, &one, sizeof(one)) != sizeof(one)) std::abort();
  thread_.join();
  close(stop_);
  close(listener_);
}

std::string OneAnswer::address() const { return absl::StrCat("127.0.0.1:", port_); }

void OneAnswer::Serve() {
  std::vector<int> connections;
  while (true) {
    pollfd waits[] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
    poll(waits, 2, -1);
    if (waits[1].revents != 0) break;
    const int fd = accept(listener_, nullptr, nullptr);
    if (fd < 0) continue;
    char first = 0;
    if (only_to_ != 0 && (recv(fd, &first, 1, 0) != 1 || first != only_to_)) {
      close(fd);
      continue;
    }
    connections.push_back(fd);
    if (!answer_.empty()) send(fd, answer_.data(), answer_.size(), MSG_NOSIGNAL);
  }
  for (const int fd : connections) close(fd);
}

uint16_t ClosedPort() {
  uint16_t port = 0;
  close(ListenOnLoopback(&port));
  return port;
}

}  // namespace sangam::testing
