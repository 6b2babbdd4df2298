#include "tests/testing/raw_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "gtest/gtest.h"

namespace sangam {

RawConnection::RawConnection(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
}

RawConnection::~RawConnection() { close(fd_); }

bool RawConnection::Write(const std::string& bytes) {
  return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::string RawConnection::ReadAll(absl::Duration timeout) {
  const absl::Duration until = Clock::Real().Steady() + timeout;
  std::string bytes;
  std::array<char, 65536> buffer;
  for (;;) {
    const absl::Duration left = until - Clock::Real().Steady();
    pollfd ready = {fd_, POLLIN, 0};
    if (left <= absl::ZeroDuration()) return bytes;
    if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) <= 0) return bytes;
    const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
    if (got <= 0) return bytes;
    bytes.append(buffer.data(), static_cast<size_t>(got));
  }
}

bool RawConnection::IsClosedWithin(absl::Duration timeout) {
  const absl::Duration until = Clock::Real().Steady() + timeout;
  ReadAll(timeout);
  return Clock::Real().Steady() < until;
}

HttpAnswer Ask(int port, const std::string& method_and_path, const std::string& host) {
  RawConnection connection(port);
  connection.Write(absl::StrCat(method_and_path, " HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
  const std::string text = connection.ReadAll(absl::Seconds(20));
  HttpAnswer answer;
  const size_t end = text.find("\r\n\r\n");
  if (text.size() < 12 || end == std::string::npos) return answer;
  EXPECT_TRUE(absl::SimpleAtoi(text.substr(9, 3), &answer.status)) << text;
  answer.headers = text.substr(0, end);
  answer.body = text.substr(end + 4);
  return answer;
}

}  // namespace sangam
