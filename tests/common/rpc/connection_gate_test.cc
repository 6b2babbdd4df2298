#include "common/rpc/connection_gate.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"
#include "common/rpc/host_port.h"
#include "gtest/gtest.h"
#include "tests/testing/raw_http2.h"

namespace sangam {
namespace {

// Takes what a gate hands over, and closes it at the end.
class Taker {
 public:
  ~Taker() { CloseAll(); }

  ConnectionGate::HandOver HandOver() {
    return [this](int /*listener*/, int connection) {
      MutexLock lock(&mutex_);
      taken_.push_back(connection);
    };
  }

  size_t size() {
    MutexLock lock(&mutex_);
    return taken_.size();
  }

  bool WaitFor(size_t count) {
    for (int i = 0; i < 2000 && size() < count; ++i) absl::SleepFor(absl::Milliseconds(10));
    return size() >= count;
  }

  void CloseAll() {
    MutexLock lock(&mutex_);
    for (const int fd : taken_) close(fd);
    taken_.clear();
  }

 private:
  Mutex mutex_;
  std::vector<int> taken_ ABSL_GUARDED_BY(mutex_);
};

// May open only so many files as long as it lives.
class FileLimit {
 public:
  explicit FileLimit(rlim_t files) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit now = {files, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~FileLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

class ConnectionGateTest : public ::testing::Test {
 protected:
  void Start(ConnectionGate::Options options) {
    options.counts = &counts_;
    auto gate = ConnectionGate::Listen({"127.0.0.1", 0}, options);
    ASSERT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
    gate_->Start(taker_.HandOver());
  }
  RawHttp2 Connect() { return RawHttp2(gate_->address().port); }

  RefusalCounts counts_;
  Taker taker_;
  std::unique_ptr<ConnectionGate> gate_;
};

TEST_F(ConnectionGateTest, HandsOverWhoSpeaks) {
  Start({});
  RawHttp2 quiet = Connect();
  RawHttp2 speaks = Connect();
  ASSERT_TRUE(speaks.Send("P"));
  ASSERT_TRUE(taker_.WaitFor(1));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(taker_.size(), 1u);
  EXPECT_EQ(gate_->num_open(), 1u);
  ASSERT_TRUE(quiet.Send("P"));
  EXPECT_TRUE(taker_.WaitFor(2));
  taker_.CloseAll();
  EXPECT_EQ(gate_->num_open(), 0u);
}

TEST_F(ConnectionGateTest, ClosesWhoIsSilentInTime) {
  ConnectionGate::Options options;
  options.silent_timeout = absl::Milliseconds(300);
  Start(options);
  RawHttp2 silent = Connect();
  const auto closed = silent.AwaitClose(absl::Seconds(20));
  ASSERT_TRUE(closed.has_value());
  EXPECT_GE(*closed, absl::Milliseconds(200));
  EXPECT_EQ(counts_.Get(Refusal::kSilentConnection), 1u);
  EXPECT_EQ(taker_.size(), 0u);
}

TEST_F(ConnectionGateTest, SilentOnesKeepNobodyOut) {
  Start({});
  std::vector<RawHttp2> silent;
  for (size_t i = 0; i < gate_->max_silent() + 200; ++i) silent.push_back(Connect());
  RawHttp2 speaks = Connect();
  ASSERT_TRUE(speaks.Send("P"));
  EXPECT_TRUE(taker_.WaitFor(1));
  EXPECT_GE(counts_.Get(Refusal::kSilentConnection), 200u);
}

TEST_F(ConnectionGateTest, ClosesAtOnceWhatIsTooMuchAndTakesAgainWhenOthersHaveGone) {
  ConnectionGate::Options options;
  options.max_connections = 2;
  Start(options);
  std::vector<RawHttp2> open;
  for (int i = 0; i < 2; ++i) {
    open.push_back(Connect());
    ASSERT_TRUE(open.back().Send("P"));
  }
  ASSERT_TRUE(taker_.WaitFor(2));
  RawHttp2 third = Connect();
  third.Send("P");
  EXPECT_TRUE(third.AwaitClose(absl::Seconds(20)).has_value());
  EXPECT_EQ(counts_.Get(Refusal::kConnections), 1u);
  EXPECT_TRUE(open[0].is_open() && open[1].is_open());
  taker_.CloseAll();
  RawHttp2 fourth = Connect();
  ASSERT_TRUE(fourth.Send("P"));
  EXPECT_TRUE(taker_.WaitFor(1));
}

TEST_F(ConnectionGateTest, OutlivesAFloodThatTakesEveryDescriptor) {
  std::vector<RawHttp2> flood;
  {
    // Both ends are in this process: the limit is for the gate's.
    const FileLimit limit(200);
    ConnectionGate::Options options;
    Start(options);
    EXPECT_LE(gate_->max_connections() + gate_->max_silent(), 200u - 64);
    for (int i = 0; i < 400; ++i) {
      RawHttp2 one = Connect();
      one.Send("P");
      if (one.is_open()) flood.push_back(std::move(one));
    }
    absl::SleepFor(absl::Milliseconds(200));
    std::printf("flood: %zu connected, %zu handed over, %zu refused\n", flood.size(), taker_.size(),
                static_cast<size_t>(counts_.Get(Refusal::kConnections)));
  }
  flood.clear();
  taker_.CloseAll();
  RawHttp2 after = Connect();
  ASSERT_TRUE(after.Send("P"));
  EXPECT_TRUE(taker_.WaitFor(1));
}

TEST_F(ConnectionGateTest, BreaksOffAConnectionOfAPeer) {
  Start({});
  RawHttp2 one = Connect();
  ASSERT_TRUE(one.Send("12345"));
  ASSERT_TRUE(taker_.WaitFor(1));
  EXPECT_FALSE(gate_->Break({"127.0.0.1", 1}));
  EXPECT_EQ(gate_->BytesReceived({"127.0.0.1", 1}), 0u);
  const HostPort peer = {"127.0.0.1", one.local_port()};
  EXPECT_EQ(gate_->BytesReceived(peer), 5u);
  EXPECT_TRUE(gate_->Break(peer));
  EXPECT_TRUE(one.AwaitClose(absl::Seconds(20)).has_value());
}

// Of a listener on several addresses: one peer, one port, two connections.
TEST_F(ConnectionGateTest, CountsConnectionsFromOnePortToSeveralAddresses) {
  ConnectionGate::Options options;
  options.counts = &counts_;
  options.max_connections = 2;
  gate_ = ConnectionGate::Listen({"0.0.0.0", 0}, options).value();
  gate_->Start(taker_.HandOver());
  uint16_t port = 0;
  std::vector<int> clients;
  for (const uint32_t host : {0x7f000001, 0x7f000002, 0x7f000003}) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    socklen_t length = sizeof(address);
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
    port = ntohs(address.sin_port);
    address.sin_addr.s_addr = htonl(host);
    address.sin_port = htons(gate_->address().port);
    ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(send(fd, "12345", 5, MSG_NOSIGNAL), 5);
    clients.push_back(fd);
    if (clients.size() < 3) {
      ASSERT_TRUE(taker_.WaitFor(clients.size()));
    }
  }
  for (int i = 0; i < 1000 && counts_.Get(Refusal::kConnections) == 0; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(counts_.Get(Refusal::kConnections), 1u) << "the third";
  EXPECT_EQ(gate_->num_open(), 2u);
  EXPECT_EQ(gate_->BytesReceived({"127.0.0.1", port}), 10u);
  EXPECT_TRUE(gate_->Break({"127.0.0.1", port}));
  for (const int fd : clients) {
    char byte;
    EXPECT_LE(recv(fd, &byte, 1, 0), 0);
    close(fd);
  }
}

TEST_F(ConnectionGateTest, WhereTlsIsSpokenNothingElseIsHandedOver) {
  Mutex mutex;
  std::vector<std::string> told;
  ConnectionGate::Options options;
  options.tls = true;
  options.on_connection = [&](const HostPort& peer, const absl::Status& result) {
    MutexLock lock(&mutex);
    told.push_back(absl::StrCat(ToString(peer), " ", result.ToString()));
  };
  Start(options);
  RawHttp2 plain = Connect();
  const uint16_t plain_port = plain.local_port();
  ASSERT_TRUE(plain.Send("PRI * HTTP/2.0"));
  EXPECT_TRUE(plain.AwaitClose(absl::Seconds(20)).has_value());
  RawHttp2 tls = Connect();
  ASSERT_TRUE(tls.Send("\x16\x03\x01"));
  ASSERT_TRUE(taker_.WaitFor(1));
  EXPECT_EQ(taker_.size(), 1u);
  EXPECT_EQ(counts_.Get(Refusal::kNotTls), 1u);
  gate_->Stop();
  MutexLock lock(&mutex);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0], absl::StrCat("127.0.0.1:", plain_port,
                                  " UNAUTHENTICATED: found a connection that begins with the byte "
                                  "0x50, expected TLS"));
  EXPECT_EQ(told[1], absl::StrCat("127.0.0.1:", tls.local_port(), " OK"));
}

TEST_F(ConnectionGateTest, LooksAgainAndAgain) {
  std::atomic<int> looks{0};
  ConnectionGate::Options options;
  options.look = [&looks] { ++looks; };
  options.look_interval = absl::Milliseconds(20);
  Start(options);
  for (int i = 0; i < 1000 && looks < 3; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_GE(looks, 3);
  gate_->Stop();
}

TEST_F(ConnectionGateTest, StopClosesTheListener) {
  Start({});
  const int port = gate_->address().port;
  gate_->Stop();
  EXPECT_FALSE(RawHttp2(port).is_open());
  EXPECT_TRUE(ConnectionGate::Listen({"127.0.0.1", static_cast<uint16_t>(port)}, {}).ok());
}

TEST_F(ConnectionGateTest, AWildcardIsReachedByIpv4) {
  auto gate = ConnectionGate::Listen({"0.0.0.0", 0}, {});
  ASSERT_TRUE(gate.ok()) << gate.status();
  (*gate)->Start(taker_.HandOver());
  RawHttp2 one((*gate)->address().port);
  ASSERT_TRUE(one.Send("P"));
  ASSERT_TRUE(taker_.WaitFor(1));
  // The address is IPv4's, though the listener is of both kinds.
  EXPECT_TRUE((*gate)->Break({"127.0.0.1", one.local_port()}));
  const auto again = ConnectionGate::Listen({"0.0.0.0", (*gate)->address().port}, {});
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sangam
