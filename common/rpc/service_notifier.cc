#include "common/rpc/service_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace sangam {
namespace {

std::string ValueOf(const std::vector<std::string>& environment, absl::string_view name) {
  const std::string begin = absl::StrCat(name, "=");
  for (const std::string& variable : environment) {
    if (absl::StartsWith(variable, begin)) return variable.substr(begin.size());
  }
  return "";
}

// What the manager orders its own events by.
uint64_t MonotonicMicroseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
}

// A line break would begin another field.
std::string OneLine(absl::string_view text) {
  return absl::StrReplaceAll(text.substr(0, 200), {{"\n", " "}});
}

}  // namespace

ServiceNotifier::ServiceNotifier(const std::vector<std::string>& environment) {
  address_ = ValueOf(environment, "NOTIFY_SOCKET");
  if (address_.size() < 2 || address_.size() >= sizeof(sockaddr_un::sun_path) ||
      (address_[0] != '/' && address_[0] != '@')) {
    address_.clear();
  } else {
    if (address_[0] == '@') address_[0] = '\0';
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }
  uint64_t microseconds = 0;
  uint64_t pid = 0;
  const std::string of = ValueOf(environment, "WATCHDOG_PID");
  const bool ours =
      of.empty() || (absl::SimpleAtoi(of, &pid) && pid == static_cast<uint64_t>(getpid()));
  if (ours && absl::SimpleAtoi(ValueOf(environment, "WATCHDOG_USEC"), &microseconds) &&
      microseconds > 0 && microseconds < uint64_t{1} << 62) {
    watchdog_period_ = absl::Microseconds(static_cast<int64_t>(microseconds)) / 2;
  }
}

ServiceNotifier::~ServiceNotifier() {
  if (socket_ >= 0) close(socket_);
}

void ServiceNotifier::Ready(absl::string_view status) {
  Send(absl::StrCat("READY=1\nSTATUS=", OneLine(status)));
}

void ServiceNotifier::Reloading() {
  Send(absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", MonotonicMicroseconds()));
}

void ServiceNotifier::Stopping(absl::string_view status) {
  Send(absl::StrCat("STOPPING=1\nSTATUS=", OneLine(status)));
}

void ServiceNotifier::Alive() {
  if (watchdog_period_ == absl::InfiniteDuration()) return;
  const absl::Duration now = Clock::Real().Steady();
  // Called more often, it still sends no more than needed; a little early is in time.
  if (now - last_alive_ < watchdog_period_ / 2) return;
  last_alive_ = now;
  Send("WATCHDOG=1");
}

void ServiceNotifier::Send(const std::string& message) {
  if (socket_ < 0) return;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, address_.data(), address_.size());
  // The name of an abstract socket is as long as is said here; a path ends with a NUL.
  const size_t terminator = address_[0] == '\0' ? 0 : 1;
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size() + terminator);
  // Nobody to tell is no reason not to serve.
  (void)sendto(socket_, message.data(), message.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace sangam
