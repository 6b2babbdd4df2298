#include "client/local_cluster.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/script.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kGoodServer[] = "echo \"server $*\"; ready 127.0.0.1:4567; exec sleep 1000";
constexpr char kGoodWorker[] = "echo \"worker $*\"; ready \"$name\"; exec sleep 1000";

class LocalClusterTest : public ::testing::Test {
 protected:
  LocalClusterTest() : directory_(FreshDirectory("local_cluster_test")) {
    options_.log_directory = directory_;
    options_.data_root = "/data";
    options_.stop_deadline = absl::Seconds(10);
    Server(kGoodServer);
    Worker(kGoodWorker);
  }

  void Server(const std::string& body) {
    options_.server_binary = WriteScript(absl::StrCat(directory_, "/server"), body);
  }
  void Worker(const std::string& body) {
    options_.worker_binary = WriteScript(absl::StrCat(directory_, "/worker"), body);
  }
  std::string Log(const std::string& name) const {
    return ReadFile(absl::StrCat(directory_, "/", name, ".log"), 10'000).value_or("");
  }
  // Waits until a daemon has ended.
  static absl::Status AwaitFault(LocalCluster* cluster) {
    const absl::Time until = absl::Now() + absl::Seconds(20);
    absl::Status status = cluster->Check();
    while (status.ok() && absl::Now() < until) {
      absl::SleepFor(absl::Milliseconds(2));
      status = cluster->Check();
    }
    return status;
  }

  const std::string directory_;
  LocalCluster::Options options_;
};

TEST_F(LocalClusterTest, StartsDaemonsWithTheirFlagsAndStopsThem) {
  options_.servers = 2;
  options_.workers = 3;
  options_.threads = 4;
  options_.memory_limit = 12345;
  LocalCluster cluster(options_);
  const absl::Status status = cluster.Start();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(cluster.coordinator(), "127.0.0.1:4567");
  EXPECT_TRUE(cluster.Check().ok());
  EXPECT_EQ(Log("server-0"),
            absl::StrCat("server --listen=127.0.0.1:0 --data_root=/data "
                         "--name=server-0 --ready_file=",
                         directory_, "/server-0.ready --tls_cert= --tls_key= --tls_ca=\n"));
  EXPECT_THAT(Log("server-1"),
              HasSubstr("--listen=127.0.0.1:0 --coordinator=127.0.0.1:4567 --name=server-1"));
  EXPECT_THAT(Log("worker-2"), HasSubstr("--coordinator=127.0.0.1:4567 --data_root=/data "
                                         "--threads=4 --backend=cpu --memory_limit=12345 "
                                         "--name=worker-2"));
  EXPECT_TRUE(cluster.Stop().empty());
  EXPECT_FALSE(ReadFile(absl::StrCat(directory_, "/server-0.ready"), 100).ok());
}

TEST_F(LocalClusterTest, ADaemonThatDiesAtOnceEndsTheStart) {
  Worker("echo 'no such data' >&2; exit 4");
  LocalCluster cluster(options_);
  const absl::Status status = cluster.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat("worker-0 exited with status 4 (log: ", directory_, "/worker-0.log)"));
  EXPECT_EQ(cluster.failed_log(), absl::StrCat(directory_, "/worker-0.log"));
  EXPECT_EQ(Log("worker-0"), "no such data\n");
  EXPECT_TRUE(cluster.Stop().empty());
}

TEST_F(LocalClusterTest, ADaemonThatIsNeverReadyEndsTheStart) {
  Server("exec sleep 1000");
  options_.start_deadline = absl::Milliseconds(100);
  LocalCluster cluster(options_);
  const absl::Status status = cluster.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("server-0 is not ready after 0.1s"), HasSubstr("server-0.log")));
  EXPECT_EQ(cluster.failed_log(), absl::StrCat(directory_, "/server-0.log"));
}

TEST_F(LocalClusterTest, AMalformedReadyFileIsAnError) {
  Server("ready nonsense; exec sleep 1000");
  LocalCluster cluster(options_);
  const absl::Status status = cluster.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("ready file of server-0"), HasSubstr("nonsense")));
}

TEST_F(LocalClusterTest, AMissingProgramIsAnError) {
  options_.worker_binary = "/no/such/sangam-worker";
  LocalCluster cluster(options_);
  EXPECT_THAT(std::string(cluster.Start().message()),
              HasSubstr("cannot start /no/such/sangam-worker"));
}

TEST_F(LocalClusterTest, AnOldReadyFileDoesNotCount) {
  ASSERT_TRUE(WriteFileAtomically(absl::StrCat(directory_, "/server-0.ready"), "127.0.0.1:9").ok());
  Server("exit 1");
  LocalCluster cluster(options_);
  EXPECT_EQ(cluster.Start().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(cluster.coordinator(), "");
}

TEST_F(LocalClusterTest, AnInterruptEndsTheStart) {
  Server("exec sleep 1000");
  int asked = 0;
  options_.check = [&asked] {
    return ++asked > 3 ? absl::CancelledError("Ctrl-C") : absl::OkStatus();
  };
  LocalCluster cluster(options_);
  EXPECT_EQ(cluster.Start(), absl::CancelledError("Ctrl-C"));
  EXPECT_TRUE(cluster.Stop().empty());
}

TEST_F(LocalClusterTest, ADeathLaterOnIsNoticed) {
  Worker("ready \"$name\"; if [ \"$name\" = worker-1 ]; then kill -9 $$; fi; exec sleep 1000");
  options_.workers = 2;
  LocalCluster cluster(options_);
  absl::Status status = cluster.Start();
  if (status.ok()) status = AwaitFault(&cluster);
  EXPECT_EQ(std::string(status.message()),
            absl::StrCat("worker-1 was killed by signal 9 (Killed) (log: ", directory_,
                         "/worker-1.log)"));
  EXPECT_EQ(cluster.failed_log(), absl::StrCat(directory_, "/worker-1.log"));
}

TEST_F(LocalClusterTest, WorkersEndBeforeServersAndTheCoordinatorLast) {
  const std::string note =
      absl::StrCat("trap 'echo \"$name\" >> ", directory_,
                   "/order; exit 0' TERM; ready 127.0.0.1:4567; while :; do sleep 0.01; done");
  Server(note);
  Worker(note);
  options_.servers = 2;
  LocalCluster cluster(options_);
  ASSERT_TRUE(cluster.Start().ok());
  EXPECT_TRUE(cluster.Stop().empty());
  EXPECT_EQ(ReadFile(absl::StrCat(directory_, "/order"), 1000).value_or(""),
            "worker-0\nserver-1\nserver-0\n");
}

TEST_F(LocalClusterTest, WhatIgnoresTheRequestIsKilled) {
  Worker("trap '' TERM; ready \"$name\"; while :; do sleep 0.01; done");
  options_.stop_deadline = absl::Milliseconds(100);
  LocalCluster cluster(options_);
  ASSERT_TRUE(cluster.Start().ok());
  EXPECT_THAT(cluster.Stop(), ElementsAre("worker-0"));
}

TEST_F(LocalClusterTest, ASecondInterruptKillsAtOnce) {
  Worker("trap '' TERM; ready \"$name\"; while :; do sleep 0.01; done");
  options_.stop_deadline = absl::Hours(1);
  int asked = 0;
  options_.hurry = [&asked] { return ++asked > 2; };
  LocalCluster cluster(options_);
  ASSERT_TRUE(cluster.Start().ok());
  EXPECT_THAT(cluster.Stop(), ::testing::Contains("worker-0"));
}

TEST_F(LocalClusterTest, FindsTheLogOfADaemonNamedInAReason) {
  options_.workers = 11;
  LocalCluster cluster(options_);
  ASSERT_TRUE(cluster.Start().ok());
  const auto log = [this](const std::string& name) {
    return absl::StrCat(directory_, "/", name, ".log");
  };
  EXPECT_EQ(cluster.LogNamedIn("worker 'worker-10': no file"), log("worker-10"));
  EXPECT_EQ(cluster.LogNamedIn("worker-1 is lost"), log("worker-1"));
  EXPECT_EQ(cluster.LogNamedIn("lost server-0"), log("server-0"));
  EXPECT_EQ(cluster.LogNamedIn("my-worker-1x"), "");
  EXPECT_EQ(cluster.LogNamedIn(""), "");
}

}  // namespace
}  // namespace sangam
