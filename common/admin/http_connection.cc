#include "common/admin/http_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace sangam {

HttpConnection::HttpConnection(int fd, std::string peer, absl::Duration deadline, size_t max_bytes)
    : fd_(fd),
      peer_(std::move(peer)),
      until_(Clock::Real().Steady() + deadline),
      left_(max_bytes) {}

HttpConnection::~HttpConnection() {
  // What has not been read would turn the answer on its way into a reset connection.
  shutdown(fd_, SHUT_WR);
  for (int i = 0; i < 16 && recv(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT) > 0; ++i) {
  }
  close(fd_);
}

bool HttpConnection::Await(short events) const {
  for (;;) {
    const absl::Duration left = until_ - Clock::Real().Steady();
    if (left <= absl::ZeroDuration()) return false;
    pollfd ready = {fd_, events, 0};
    const int found =
        poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(left + absl::Milliseconds(1))));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

ssize_t HttpConnection::read(char* to, size_t size) {
  if (begin_ == end_) {
    if (left_ == 0 || !Await(POLLIN)) return -1;
    const ssize_t got = recv(fd_, buffer_.data(), std::min(buffer_.size(), left_), 0);
    if (got <= 0) return got;
    begin_ = 0;
    end_ = static_cast<size_t>(got);
    left_ -= end_;
  }
  const size_t taken = std::min(size, end_ - begin_);
  std::memcpy(to, buffer_.data() + begin_, taken);
  begin_ += taken;
  return static_cast<ssize_t>(taken);
}

ssize_t HttpConnection::write(const char* from, size_t size) {
  if (!Await(POLLOUT)) return -1;
  return send(fd_, from, size, MSG_NOSIGNAL);
}

void HttpConnection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip = peer_;
  port = 0;
}

void HttpConnection::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

}  // namespace sangam
