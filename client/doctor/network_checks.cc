#include "client/doctor/network_checks.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/human_format.h"
#include "common/base/version.h"
#include "proto/job_service.pb.h"

namespace sangam {
namespace {

constexpr absl::Duration kGoodSkew = absl::Seconds(5);
// Certificates begin this much before they were made, and leases are not about wall clocks: beyond
// it new certificates may not be good yet.
constexpr absl::Duration kBadSkew = absl::Minutes(5);

// RFC 9113, section 3.4, and an empty SETTINGS frame (section 6.5).
constexpr absl::string_view kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
// RFC 5246, section 7.4.1.2: TLS 1.2 with the usual elliptic curves, and h2 (RFC 7301). What
// follows does not matter.
constexpr char kClientHello[] =
    "\x16\x03\x01\x00\x5a\x01\x00\x00\x56\x03\x03"
    "0123456789abcdef0123456789abcdef"          // random
    "\x00"                                      // no session
    "\x00\x08\xc0\x2b\xc0\x2f\xc0\x2c\xc0\x30"  // ECDHE with AES-GCM
    "\x01\x00"                                  // no compression
    "\x00\x25"
    "\x00\x0a\x00\x06\x00\x04\x00\x17\x00\x1d"          // P-256, X25519
    "\x00\x0b\x00\x02\x01\x00"                          // points as they are
    "\x00\x0d\x00\x08\x00\x06\x04\x03\x08\x04\x04\x01"  // signatures: ECDSA, RSA
    "\x00\x10\x00\x05\x00\x03\x02h2";
constexpr size_t kFrameHeader = 9;
constexpr char kSettings = 4;
// Records of TLS begin with a kind; these two answer what is no TLS: alert, handshake.
constexpr char kTlsAlert = 21;
constexpr char kTlsHandshake = 22;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses Resolve(const std::string& host, uint16_t port, int* error) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  *error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  return Addresses(*error == 0 ? found : nullptr, &freeaddrinfo);
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

bool Await(int fd, short events, absl::Time until) {
  while (true) {
    pollfd wait = {fd, events, 0};
    const int64_t left = absl::ToInt64Milliseconds(until - absl::Now());
    const int ready = poll(&wait, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// 0 or errno.
int Connect(int fd, const addrinfo& address, absl::Time until) {
  if (connect(fd, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!Await(fd, POLLOUT, until)) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

// What comes in answer to `words`, up to the size of a frame's header.
std::string FirstBytes(int fd, absl::string_view words, absl::Time until) {
  std::string first;
  if (send(fd, words.data(), words.size(), MSG_NOSIGNAL) < 0) return first;
  std::array<char, kFrameHeader> part{};
  while (first.size() < part.size() && Await(fd, POLLIN, until)) {
    const ssize_t more = recv(fd, part.data(), part.size() - first.size(), 0);
    if (more < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (more <= 0) break;
    first.append(part.data(), static_cast<size_t>(more));
  }
  return first;
}

Answerer Classify(absl::string_view first) {
  if (first.empty()) return Answerer::kSilent;
  if (first[0] == kTlsAlert || first[0] == kTlsHandshake) return Answerer::kTls;
  return first.size() == kFrameHeader && first[3] == kSettings ? Answerer::kPlainHttp2
                                                               : Answerer::kOther;
}

// On a connection of its own; takes at most twice `timeout`.
Probe AskOnce(const addrinfo& addresses, absl::string_view words, absl::Duration timeout) {
  int reason = ETIMEDOUT;
  const absl::Time connected = absl::Now() + timeout;
  for (const addrinfo* it = &addresses; it != nullptr; it = it->ai_next) {
    const Socket socket(::socket(it->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.fd() < 0) {
      reason = errno;
      continue;
    }
    reason = Connect(socket.fd(), *it, connected);
    if (reason == 0) {
      return {Classify(FirstBytes(socket.fd(), words, absl::Now() + timeout)), ""};
    }
  }
  return {Answerer::kNobody, std::strerror(reason)};
}

Finding CheckClock(absl::Time theirs, absl::Time asked, absl::Time answered) {
  const absl::Duration skew = theirs - (asked + (answered - asked) / 2);
  const absl::Duration distance =
      std::max(absl::ZeroDuration(), absl::AbsDuration(skew) - (answered - asked) / 2);
  Finding clock{"clock of the coordinator", Verdict::kGood, "is that of this machine", ""};
  if (distance > kGoodSkew) {
    clock.verdict = distance > kBadSkew ? Verdict::kFault : Verdict::kWarning;
    clock.found =
        absl::StrCat("is ", HumanDuration(distance),
                     skew > absl::ZeroDuration() ? " ahead of" : " behind", " this machine's");
    clock.fix = "run chrony or systemd-timesyncd on both";
  }
  return clock;
}

void CheckDaemons(const v1::Cluster& cluster, Findings* findings) {
  int servers = 0;
  int workers = 0;
  std::vector<std::string> lost;
  for (const v1::DaemonStatus& daemon : cluster.daemon()) {
    const std::string name = OneLine(absl::StrCat(daemon.role(), " ", daemon.name()));
    if (!daemon.alive()) {
      lost.push_back(name);
      continue;
    }
    ++(daemon.role() == "server" ? servers : workers);
    if (!daemon.fault().empty()) {
      findings->push_back({name, Verdict::kFault, OneLine(daemon.fault()),
                           "start the process again when that is mended"});
    }
  }
  Finding finding{"daemons", Verdict::kGood,
                  absl::StrCat(servers, " servers and ", workers, " workers are there"), ""};
  if (servers == 0 || workers == 0) {
    finding.verdict = Verdict::kFault;
    finding.fix = "start the missing ones with --coordinator; their logs say why they do not join";
  }
  findings->push_back(finding);
  if (!lost.empty()) {
    findings->push_back({"lost daemons", Verdict::kWarning, absl::StrJoin(lost, ", "),
                         "silent for longer than a lease: see their logs"});
  }
}

}  // namespace

Finding CheckName(const std::string& host) {
  int error = 0;
  const Addresses found = Resolve(host, 0, &error);
  const std::string subject = absl::StrCat("name ", OneLine(host));
  if (found == nullptr) {
    return {subject, Verdict::kFault, absl::StrCat("does not resolve: ", gai_strerror(error)),
            "see /etc/resolv.conf and the name; in Kubernetes the Service and its namespace"};
  }
  std::array<char, NI_MAXHOST> text{};
  getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0,
              NI_NUMERICHOST);
  return {subject, Verdict::kGood, absl::StrCat("is ", text.data()), ""};
}

Probe ProbePort(const std::string& host, uint16_t port, absl::Duration timeout) {
  int error = 0;
  const Addresses found = Resolve(host, port, &error);
  if (found == nullptr) return {Answerer::kNobody, gai_strerror(error)};
  const Probe plain = AskOnce(*found, kPreface, timeout);
  if (plain.answerer != Answerer::kSilent) return plain;
  // gRPC with TLS hangs up on what is no TLS, without a word.
  const Probe with_tls =
      AskOnce(*found, absl::string_view(kClientHello, sizeof(kClientHello) - 1), timeout);
  return with_tls.answerer == Answerer::kTls ? with_tls : plain;
}

Finding CheckPort(const std::string& address, const Probe& probe, bool with_tls) {
  Finding finding{absl::StrCat("coordinator ", OneLine(address)), Verdict::kFault, "", ""};
  switch (probe.answerer) {
    case Answerer::kNobody:
      finding.found = absl::StrCat("nobody answers: ", probe.reason);
      finding.fix =
          "start sangam-server there; it listens on this machine only unless --listen says more; "
          "see firewalls and NetworkPolicies";
      break;
    case Answerer::kSilent:
      finding.found = "takes the connection and says nothing";
      finding.fix = "is it a sangam-server? A stopped process and a wrong port look like this";
      break;
    case Answerer::kOther:
      finding.found = "something answers that speaks no gRPC";
      finding.fix = "is the port right? 7070 by default, not that of --admin_listen";
      break;
    case Answerer::kTls:
      if (with_tls) {
        finding.verdict = Verdict::kGood;
        finding.found = "answers with TLS";
      } else {
        finding.found = "wants TLS, and this client has no credentials";
        finding.fix = "give --tls_ca and a certificate (--tls_cert, --tls_key) or --token_file";
      }
      break;
    case Answerer::kPlainHttp2:
      if (with_tls) {
        finding.found = "answers without TLS, and this client has credentials";
        finding.fix = "give the coordinator --tls_cert, --tls_key and --tls_ca";
      } else {
        finding.verdict = Verdict::kGood;
        finding.found = "answers without TLS";
      }
      break;
  }
  return finding;
}

Findings CheckCluster(const v1::Cluster& cluster, absl::Time asked, absl::Time answered) {
  Findings findings;
  Finding version{"version", Verdict::kGood,
                  absl::StrCat("the coordinator is ", OneLine(cluster.version()), ", this client ",
                               kVersion, ", both speak protocol ", kProtocolVersion),
                  ""};
  if (cluster.version().empty()) {
    version.verdict = Verdict::kWarning;
    version.found = "the coordinator does not tell its version, so it is older than this client";
    version.fix = "use one release everywhere";
  } else if (cluster.protocol_version() != kProtocolVersion) {
    version.verdict = Verdict::kFault;
    version.found = absl::StrCat("the coordinator (", OneLine(cluster.version()),
                                 ") speaks protocol ", cluster.protocol_version(),
                                 ", this client (", kVersion, ") speaks ", kProtocolVersion);
    version.fix = "use one release everywhere";
  } else if (cluster.version() != kVersion) {
    version.verdict = Verdict::kWarning;
    version.fix = "use one release everywhere";
  }
  findings.push_back(version);

  if (cluster.has_time()) findings.push_back(CheckClock(ToTime(cluster.time()), asked, answered));
  CheckDaemons(cluster, &findings);
  return findings;
}

}  // namespace sangam
