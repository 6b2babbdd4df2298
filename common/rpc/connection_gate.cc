#include "common/rpc/connection_gate.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"

namespace sangam {
namespace {

constexpr int kBacklog = 1024;
constexpr size_t kMaxSilent = 256;
// Descriptors for everything else: files, connections that this process opens.
constexpr size_t kOtherFiles = 64;
constexpr int kAcceptsAtOnce = 64;
// The kind of the record that begins TLS.
constexpr uint8_t kTlsHandshake = 22;

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

absl::Status CannotListen(const HostPort& listen, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on ", ToString(listen), ": ", why));
}

// One, because of a name with several it would have to take those that are free: two servers on
// "localhost" could share the port.
absl::StatusOr<SocketAddress> Resolve(const HostPort& listen) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(listen.port);
  const int error = getaddrinfo(listen.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return CannotListen(listen, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const addrinfo* chosen = found;
  for (const addrinfo* it = found; it != nullptr; it = it->ai_next) {
    if (it->ai_family == AF_INET) {
      chosen = it;
      break;
    }
  }
  SocketAddress address;
  std::memcpy(&address.storage, chosen->ai_addr, chosen->ai_addrlen);
  address.length = chosen->ai_addrlen;
  return address;
}

// All addresses of the machine, of both kinds.
SocketAddress Everywhere(uint16_t port) {
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  any.sin6_port = htons(port);
  SocketAddress address;
  std::memcpy(&address.storage, &any, sizeof(any));
  address.length = sizeof(any);
  return address;
}

void SetOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

// -1: errno says why not.
int OpenListener(const SocketAddress& address) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.storage.ss_family == AF_INET6) SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd, address.get(), address.length) == 0 && listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

uint16_t PortOf(const SocketAddress& address) {
  return ntohs(address.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

HostPort ToHostPort(const SocketAddress& address) {
  char host[NI_MAXHOST] = "";
  getnameinfo(address.get(), address.length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  const absl::string_view mapped = "::ffff:";
  std::string name = host;
  if (name.compare(0, mapped.size(), mapped.data()) == 0) name.erase(0, mapped.size());
  return {name, PortOf(address)};
}

// 0: not a socket that is open.
ino_t InodeOf(int fd) {
  struct stat status = {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

// At once, without waiting for what is unsent: the peer sees a reset.
void Refuse(int fd) {
  const linger now = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  close(fd);
}

// What a peer that speaks no TLS hears from a server that speaks nothing else.
void SendAlertAndClose(int fd) {
  // An alert of TLS 1.0, which all versions begin with: fatal, protocol_version.
  constexpr uint8_t kAlert[] = {21, 3, 1, 0, 2, 2, 70};
  send(fd, kAlert, sizeof(kAlert), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(fd, SHUT_WR);
  // What has not been read would turn the alert on its way into a reset connection.
  char unread[4096];
  for (int i = 0; i < 16 && recv(fd, unread, sizeof(unread), MSG_DONTWAIT) > 0; ++i) {
  }
  close(fd);
}

size_t FileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return size_t{1} << 20;
  return static_cast<size_t>(limit.rlim_cur);
}

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(const HostPort& listen,
                                                                       const Options& options) {
  int listener = -1;
  if (IsWildcard(listen.host)) {
    listener = OpenListener(Everywhere(listen.port));
    // A machine without IPv6.
    if (listener < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
      ASSIGN_OR_RETURN(const SocketAddress address, Resolve({"0.0.0.0", listen.port}));
      listener = OpenListener(address);
    }
  } else {
    ASSIGN_OR_RETURN(const SocketAddress address, Resolve(listen));
    listener = OpenListener(address);
  }
  if (listener < 0) return CannotListen(listen, std::strerror(errno));
  SocketAddress bound;
  getsockname(listener, bound.get(), &bound.length);
  return std::unique_ptr<ConnectionGate>(
      new ConnectionGate(listener, {listen.host, PortOf(bound)}, options));
}

ConnectionGate::ConnectionGate(int listener, HostPort address, const Options& options)
    : listener_(listener),
      address_(std::move(address)),
      options_(options),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      spare_(OpenSpare()) {
  const size_t files = FileLimit();
  const size_t usable = files - std::min(files / 2, std::max(kOtherFiles, files / 8));
  max_silent_ = std::clamp<size_t>(usable / 4, 1, kMaxSilent);
  max_connections_ = std::clamp<size_t>(usable - max_silent_, 1, options.max_connections);
  if (max_connections_ < options.max_connections) {
    LogWarning("fewer connections", "max_connections=%d wanted=%d file_limit=%d", max_connections_,
               options.max_connections, files);
  }
}

ConnectionGate::~ConnectionGate() { Stop(); }

void ConnectionGate::Start(HandOver hand_over) {
  hand_over_ = std::move(hand_over);
  next_look_ = Clock::Real().Steady() + options_.look_interval;
  thread_ = std::thread([this] { Run(); });
}

void ConnectionGate::Stop() {
  if (listener_ < 0) return;
  if (thread_.joinable()) {
    const uint64_t one = 1;
    // Cannot fail: the counter is far from full.
    if (write(wake_, &one, sizeof(one)) < 0) LogWarning("gate not woken", "errno=%d", errno);
    thread_.join();
  }
  for (const Silent& silent : silent_) close(silent.fd);
  silent_.clear();
  for (const int fd : {listener_, wake_, spare_}) {
    if (fd >= 0) close(fd);
  }
  listener_ = -1;
}

void ConnectionGate::Run() {
  for (;;) {
    std::vector<pollfd> polled = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Silent& silent : silent_) polled.push_back({silent.fd, POLLIN | POLLRDHUP, 0});
    absl::Duration until = options_.look != nullptr ? next_look_ : absl::InfiniteDuration();
    if (!silent_.empty()) until = std::min(until, silent_.front().deadline);
    const absl::Duration wait = std::min(until - Clock::Real().Steady(), absl::Minutes(1));
    // Rounded up, so that the deadline has passed when it wakes.
    const int64_t wait_ms = std::max<int64_t>(0, absl::ToInt64Milliseconds(wait) + 1);
    if (poll(polled.data(), polled.size(), static_cast<int>(wait_ms)) < 0) continue;
    if (polled[0].revents != 0) return;
    std::vector<bool> ready;
    for (size_t i = 2; i < polled.size(); ++i) ready.push_back(polled[i].revents != 0);
    HandOverReady(ready);
    const absl::Duration now = Clock::Real().Steady();
    DropLate(now);
    if (polled[1].revents != 0) AcceptAll();
    if (options_.look == nullptr || now < next_look_) continue;
    options_.look();
    next_look_ = now + options_.look_interval;
  }
}

void ConnectionGate::AcceptAll() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      Add(fd);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    // Others are of the one connection, which is gone.
    if (full && !MakeRoom()) return;
  }
}

bool ConnectionGate::MakeRoom() {
  if (!silent_.empty()) {
    DropOldestSilent();
    return true;
  }
  CountRefusal(options_.counts, Refusal::kConnections);
  if (spare_ >= 0) {
    close(spare_);
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) Refuse(fd);
    spare_ = OpenSpare();
    return spare_ >= 0;
  }
  spare_ = OpenSpare();
  // Nothing to give up: the loop would spin.
  usleep(10'000);
  return false;
}

void ConnectionGate::Add(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
            static_cast<int>(absl::ToInt64Milliseconds(options_.unacknowledged_timeout)));
  if (silent_.size() >= max_silent_) DropOldestSilent();
  silent_.push_back({fd, Clock::Real().Steady() + options_.silent_timeout});
}

void ConnectionGate::DropOldestSilent() {
  CountRefusal(options_.counts, Refusal::kSilentConnection);
  Refuse(silent_.front().fd);
  silent_.pop_front();
}

void ConnectionGate::DropLate(absl::Duration now) {
  while (!silent_.empty() && silent_.front().deadline <= now) DropOldestSilent();
}

void ConnectionGate::HandOverReady(const std::vector<bool>& ready) {
  std::deque<Silent> still;
  for (size_t i = 0; i < silent_.size(); ++i) {
    const int fd = silent_[i].fd;
    uint8_t byte = 0;
    const ssize_t got = ready[i] ? recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : -1;
    if (got > 0) {
      Pass(fd, byte);
    } else if (ready[i] && (got == 0 || errno != EAGAIN)) {
      close(fd);  // it has gone again
    } else {
      still.push_back(silent_[i]);
    }
  }
  silent_ = std::move(still);
}

void ConnectionGate::Pass(int fd, uint8_t first) {
  SocketAddress address;
  if (getpeername(fd, address.get(), &address.length) != 0) {
    close(fd);  // it has gone since it spoke
    return;
  }
  const HostPort peer = ToHostPort(address);
  const bool tls = !options_.tls || first == kTlsHandshake;
  const absl::Status result =
      tls ? Place(fd, peer)
          : absl::UnauthenticatedError(absl::StrFormat(
                "found a connection that begins with the byte 0x%02x, expected TLS", first));
  if (options_.on_connection != nullptr) options_.on_connection(peer, result);
  if (result.ok()) {
    hand_over_(listener_, fd);
  } else if (tls) {
    Refuse(fd);
  } else {
    CountRefusal(options_.counts, Refusal::kNotTls);
    SendAlertAndClose(fd);
  }
}

absl::Status ConnectionGate::Place(int fd, const HostPort& peer) {
  MutexLock lock(&mutex_);
  if (open_.size() >= max_connections_) Forget();
  if (open_.size() >= max_connections_) {
    CountRefusal(options_.counts, Refusal::kConnections);
    return absl::ResourceExhaustedError(
        absl::StrCat("found ", open_.size(), " connections, expected no more"));
  }
  open_.emplace(ToString(peer), Open{fd, InodeOf(fd)});
  return absl::OkStatus();
}

bool ConnectionGate::Open::StillOpen() const { return InodeOf(fd) == inode; }

void ConnectionGate::Forget() const {
  for (auto it = open_.begin(); it != open_.end();) {
    it = it->second.StillOpen() ? std::next(it) : open_.erase(it);
  }
}

size_t ConnectionGate::num_open() const {
  MutexLock lock(&mutex_);
  Forget();
  return open_.size();
}

std::vector<int> ConnectionGate::FindOpen(const HostPort& peer) const {
  std::vector<int> found;
  const auto [begin, end] = open_.equal_range(ToString(peer));
  for (auto it = begin; it != end; ++it) {
    if (it->second.StillOpen()) found.push_back(it->second.fd);
  }
  return found;
}

bool ConnectionGate::Break(const HostPort& peer) {
  MutexLock lock(&mutex_);
  bool broken = false;
  for (const int fd : FindOpen(peer)) {
    // Not closed: the descriptor is gRPC's, which sees the end of the stream.
    broken = shutdown(fd, SHUT_RDWR) == 0 || broken;
  }
  return broken;
}

uint64_t ConnectionGate::BytesReceived(const HostPort& peer) const {
  MutexLock lock(&mutex_);
  uint64_t received = 0;
  for (const int fd : FindOpen(peer)) {
    tcp_info info = {};
    socklen_t length = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) continue;
    received += info.tcpi_bytes_received;
  }
  return received;
}

}  // namespace sangam
