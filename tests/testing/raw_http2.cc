#include "tests/testing/raw_http2.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sangam {
namespace {

enum FrameType { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6, kWindow = 8 };

std::string Number(uint32_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    text += static_cast<char>(value >> shift);
  return text;
}

uint32_t NumberAt(const std::string& text, size_t offset, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(text[offset + i]);
  return value;
}

std::string Frame(int type, int flags, uint32_t stream, const std::string& body) {
  return absl::StrCat(Number(static_cast<uint32_t>(body.size()), 3), Number(type, 1),
                      Number(flags, 1), Number(stream, 4), body);
}

// Without index and without Huffman codes.
std::string Header(const std::string& key, const std::string& value) {
  return absl::StrCat(Number(0, 1), Number(static_cast<uint32_t>(key.size()), 1), key,
                      Number(static_cast<uint32_t>(value.size()), 1), value);
}

uint64_t StatusBytes(pid_t pid, const std::string& key) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string word; file >> word;) {
    uint64_t kibibytes = 0;
    if (word == key && file >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

RawHttp2::RawHttp2(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) Close();
}

RawHttp2::RawHttp2(RawHttp2&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      preface_sent_(other.preface_sent_),
      has_settings_(other.has_settings_),
      connection_window_(other.connection_window_),
      initial_window_(other.initial_window_),
      windows_(std::move(other.windows_)) {}

uint16_t RawHttp2::local_port() const {
  sockaddr_in address = {};
  socklen_t length = sizeof(address);
  getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

RawHttp2::~RawHttp2() { Close(); }

void RawHttp2::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool RawHttp2::Send(const std::string& bytes) {
  const absl::Time end = absl::Now() + absl::Seconds(1);
  for (size_t sent = 0; sent < bytes.size();) {
    if (fd_ < 0) return false;
    const ssize_t n =
        send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (n < 0 && errno != EAGAIN) {
      Close();
    } else if (absl::Now() > end) {
      return false;
    } else {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  return true;
}

void RawHttp2::SendPreface() {
  preface_sent_ = true;
  Send(absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Frame(kSettings, 0, 0, "")));
}

void RawHttp2::OpenCall(uint32_t stream, const std::string& method) {
  windows_[stream] = initial_window_;
  Send(Frame(kHeaders, 4, stream,
             absl::StrCat(Header(":method", "POST"), Header(":scheme", "http"),
                          Header(":path", method), Header(":authority", "test"),
                          Header("te", "trailers"), Header("content-type", "application/grpc"))));
}

void RawHttp2::BeginMessage(uint32_t stream, uint32_t length) {
  connection_window_ -= 5;
  windows_[stream] -= 5;
  Send(Frame(kData, 0, stream, absl::StrCat(Number(0, 1), Number(length, 4))));
}

int64_t RawHttp2::SendBody(uint32_t stream, int64_t bytes, absl::Duration timeout) {
  const absl::Time end = absl::Now() + timeout;
  int64_t sent = 0;
  while (sent < bytes && is_open() && !IsOver(stream) && absl::Now() < end) {
    const int64_t count =
        std::min({bytes - sent, connection_window_, windows_[stream], int64_t{16384}});
    if (count <= 0) {
      Pump(absl::Milliseconds(2));
      continue;
    }
    if (!Send(Frame(kData, 0, stream, std::string(static_cast<size_t>(count), '\x5a')))) break;
    sent += count;
    connection_window_ -= count;
    windows_[stream] -= count;
    Pump(absl::ZeroDuration());
  }
  return sent;
}

void RawHttp2::Pump(absl::Duration duration) {
  const absl::Time end = absl::Now() + duration;
  do {
    const absl::Duration left = std::max(end - absl::Now(), absl::ZeroDuration());
    pollfd polled = {fd_, POLLIN, 0};
    if (fd_ < 0 || poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) <= 0) return;
    char bytes[65536];
    const ssize_t n = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return Close();
    if (n > 0) buffer_.append(bytes, static_cast<size_t>(n));
    while (buffer_.size() >= 9 && buffer_.size() >= 9 + NumberAt(buffer_, 0, 3)) {
      const size_t length = NumberAt(buffer_, 0, 3);
      const int type = static_cast<uint8_t>(buffer_[3]);
      const int flags = static_cast<uint8_t>(buffer_[4]);
      const uint32_t stream = NumberAt(buffer_, 5, 4) & 0x7fffffff;
      const std::string body = buffer_.substr(9, length);
      buffer_.erase(0, 9 + length);
      OnFrame(type, flags, stream, body);
    }
  } while (absl::Now() < end);
}

void RawHttp2::OnFrame(int type, int flags, uint32_t stream, const std::string& body) {
  const bool is_answer = (flags & 1) != 0;
  if (type == kSettings && !is_answer) {
    has_settings_ = true;
    for (size_t i = 0; i + 6 <= body.size(); i += 6) {
      if (NumberAt(body, i, 2) != 4) continue;
      const int64_t window = NumberAt(body, i + 2, 4);
      for (auto& [id, left] : windows_) left += window - initial_window_;
      initial_window_ = window;
    }
    // Before the preface nothing else may be sent.
    if (preface_sent_) Send(Frame(kSettings, 1, 0, ""));
  } else if (type == kPing && !is_answer) {
    Send(Frame(kPing, 1, 0, body));
  } else if (type == kWindow) {
    int64_t& window = stream == 0 ? connection_window_ : windows_[stream];
    window += NumberAt(body, 0, 4);
  } else if (type == kReset || (type == kHeaders && is_answer)) {
    windows_.erase(stream);
  }
}

std::optional<absl::Duration> RawHttp2::AwaitClose(absl::Duration timeout) {
  const absl::Time begin = absl::Now();
  while (is_open() && absl::Now() - begin < timeout) Pump(absl::Milliseconds(20));
  if (is_open()) return std::nullopt;
  return absl::Now() - begin;
}

uint64_t ResidentBytes(pid_t pid) { return StatusBytes(pid, "VmRSS:"); }
uint64_t PeakResidentBytes(pid_t pid) { return StatusBytes(pid, "VmHWM:"); }

}  // namespace sangam
