#include "common/admin/admin_server.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/rpc/host_port.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/raw_http.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class AdminServerTest : public ::testing::Test {
 protected:
  AdminServerTest() {
    AdminServer::Options options;
    options.listen = "127.0.0.1:0";
    options.threads = 2;
    options.max_waiting = 4;
    options.deadline = absl::Seconds(1);
    AdminPages pages;
    pages.not_live = [this] { return stuck_.load() ? "ticker: stuck for 11s" : ""; };
    pages.not_ready = [this] { return draining_.load() ? "draining" : ""; };
    pages.metrics = [] { return "sangam_workers 2\n"; };
    pages.status = [] { return std::string("{\"version\":\"1\"}"); };
    auto server = AdminServer::Start(options, std::move(pages));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  int port() const { return server_->address().port; }

  std::atomic<bool> stuck_{false};
  std::atomic<bool> draining_{false};
  std::unique_ptr<AdminServer> server_;
};

TEST_F(AdminServerTest, Probes) {
  EXPECT_EQ(Ask(port(), "GET /livez").status, 200);
  EXPECT_EQ(Ask(port(), "GET /readyz").body, "ok\n");
  draining_ = true;
  EXPECT_EQ(Ask(port(), "GET /livez").status, 200);
  const HttpAnswer draining = Ask(port(), "GET /readyz");
  EXPECT_EQ(draining.status, 503);
  EXPECT_EQ(draining.body, "draining\n");
  stuck_ = true;
  const HttpAnswer stuck = Ask(port(), "GET /livez");
  EXPECT_EQ(stuck.status, 503);
  EXPECT_EQ(stuck.body, "ticker: stuck for 11s\n");
}

TEST_F(AdminServerTest, Pages) {
  const HttpAnswer metrics = Ask(port(), "GET /metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_EQ(metrics.body, "sangam_workers 2\n");
  EXPECT_THAT(metrics.headers, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics.headers, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(metrics.headers, HasSubstr("Connection: close"));
  EXPECT_THAT(metrics.headers, testing::Not(HasSubstr("Access-Control")));
  const HttpAnswer status = Ask(port(), "GET /statusz");
  EXPECT_EQ(status.body, "{\"version\":\"1\"}");
  EXPECT_THAT(status.headers, HasSubstr("application/json"));
  EXPECT_EQ(Ask(port(), "GET /").status, 404);
  EXPECT_EQ(Ask(port(), "GET /../../etc/passwd").status, 404);
  EXPECT_EQ(Ask(port(), "HEAD /livez").status, 200);
}

TEST_F(AdminServerTest, OnlyGet) {
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    EXPECT_EQ(Ask(port(), absl::StrCat(method, " /metrics")).status, 405) << method;
  }
}

TEST_F(AdminServerTest, ChangesTheLogLevel) {
  EXPECT_EQ(Ask(port(), "GET /loglevel").body, "info\n");
  EXPECT_EQ(Ask(port(), "PUT /loglevel?level=debug").body, "debug\n");
  EXPECT_EQ(CurrentLogLevel(), LogLevel::kDebug);
  const HttpAnswer wrong = Ask(port(), "PUT /loglevel?level=loud");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr("\"loud\""));
  EXPECT_EQ(CurrentLogLevel(), LogLevel::kDebug);
  EXPECT_EQ(Ask(port(), "PUT /loglevel?level=info").status, 200);
  EXPECT_EQ(CurrentLogLevel(), LogLevel::kInfo);
}

TEST_F(AdminServerTest, APageOfAnotherNameDoesNotChangeTheLogLevel) {
  for (const char* host : {"localhost", "localhost:9090", "127.0.0.1", "127.0.0.1:9090",
                           "10.0.0.1:9090", "[::1]:9090", "[::1]"}) {
    EXPECT_EQ(Ask(port(), "PUT /loglevel?level=info", host).status, 200) << host;
  }
  for (const char* host : {"evil.example", "evil.example:9090", "127.0.0.1.evil.example",
                           "localhost.evil.example:9090", "127.1:x", "", ":9090", "::"}) {
    EXPECT_EQ(Ask(port(), "PUT /loglevel?level=debug", host).status, 403) << host;
    EXPECT_EQ(CurrentLogLevel(), LogLevel::kInfo) << host;
    EXPECT_EQ(Ask(port(), "GET /livez", host).status, 200) << host;
  }
}

// As a page in a browser of this machine would ask whose name was made to stand for 127.0.0.1.
TEST_F(AdminServerTest, APageOfAnotherNameIsToldNothing) {
  for (const char* host : {"localhost", "127.0.0.1:9090", "[::1]:9090", "node-1:9090", "node-1"}) {
    EXPECT_EQ(Ask(port(), "GET /statusz", host).status, 200) << host;
  }
  for (const char* host : {"evil.example", "evil.example:9090", "127.0.0.1.evil.example", "::"}) {
    for (const char* request : {"GET /statusz", "GET /metrics", "GET /loglevel"}) {
      const HttpAnswer refused = Ask(port(), request, host);
      EXPECT_EQ(refused.status, 403) << host;
      EXPECT_THAT(refused.body, HasSubstr("Host")) << host;
    }
    EXPECT_EQ(Ask(port(), "GET /readyz", host).status, 200) << host;
  }
}

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST_F(AdminServerTest, WithoutADescriptorItWaitsAndDoesNotSpin) {
  ASSERT_EQ(Ask(port(), "GET /livez").status, 200);
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(client, 0);
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  // None that is free: the lowest free number is above the limit.
  const int next = dup(client);
  close(next);
  const rlimit none = {static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port()));
  ASSERT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const double cpu = CpuSeconds();
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_LT(CpuSeconds() - cpu, 0.25);
  setrlimit(RLIMIT_NOFILE, &before);
  close(client);
  EXPECT_EQ(Ask(port(), "GET /livez").status, 200);
}

TEST_F(AdminServerTest, SurvivesGarbage) {
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>((i * 7919) >> 3);
  for (const std::string& garbage :
       {bytes, std::string(1000, '\n'), std::string(1 << 20, 'x'), std::string("GET"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string("\x16\x03\x01\x02"),
        std::string("GET /livez HTTP/1.1\r\n") + std::string(1 << 16, 'h') + ": 1\r\n\r\n",
        std::string("PUT /loglevel HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"),
        std::string("PUT /loglevel HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n")}) {
    RawConnection connection(port());
    connection.Write(garbage);
    EXPECT_TRUE(connection.IsClosedWithin(absl::Seconds(10))) << garbage.substr(0, 20);
  }
  EXPECT_EQ(Ask(port(), "GET /livez").status, 200);
}

// Endless headers: httplib alone would take them all.
TEST_F(AdminServerTest, ARequestHasBounds) {
  RawConnection connection(port());
  connection.Write("GET /livez HTTP/1.1\r\n");
  size_t written = 0;
  while (written < (size_t{64} << 20) &&
         connection.Write("A: " + std::string(4000, 'a') + "\r\n")) {
    written += 4000;
  }
  EXPECT_LT(written, size_t{16} << 20);  // what fits into the sockets' buffers
  EXPECT_EQ(Ask(port(), "GET /livez").status, 200);
}

TEST_F(AdminServerTest, SlowClientsHaveADeadline) {
  // A byte now and then is no excuse.
  const absl::Duration begin = Clock::Real().Steady();
  RawConnection slow(port());
  bool open = true;
  for (int i = 0; i < 100 && open; ++i) {
    slow.Write("G");
    open = !slow.IsClosedWithin(absl::Milliseconds(100));
  }
  EXPECT_FALSE(open);
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(5));
}

TEST_F(AdminServerTest, IdleConnectionsAreBoundedAndGoAway) {
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 50; ++i) idle.push_back(std::make_unique<RawConnection>(port()));
  // Four are left; they are in nobody's way.
  EXPECT_EQ(Ask(port(), "GET /livez").status, 200);
  int closed = 0;
  for (const auto& connection : idle) closed += connection->IsClosedWithin(absl::Milliseconds(20));
  EXPECT_GE(closed, 40);
}

TEST_F(AdminServerTest, ManySlowRequestsAreBoundedAndGoAway) {
  std::vector<std::unique_ptr<RawConnection>> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<RawConnection>(port()));
    slow.back()->Write("GET /livez HT");
  }
  // After their deadlines there is room again, though nobody has let go.
  HttpAnswer answer;
  for (int i = 0; i < 50 && answer.status != 200; ++i) {
    answer = Ask(port(), "GET /livez");
    absl::SleepFor(absl::Milliseconds(200));
  }
  EXPECT_EQ(answer.status, 200);
}

TEST_F(AdminServerTest, PortIsItsOwn) {
  AdminServer::Options options;
  options.listen = absl::StrCat("127.0.0.1:", port());
  const absl::Status status = AdminServer::Start(options, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--admin_listen: cannot listen on 127.0.0.1:"));
  options.listen = "nonsense";
  EXPECT_EQ(AdminServer::Start(options, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sangam
