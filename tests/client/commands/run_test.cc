#include "client/commands/run.h"

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/child_process.h"
#include "client/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/commands/fake_daemons.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class RunTest : public CommandFixture {
 protected:
  RunTest()
      : out_(absl::StrCat(directory_, "/out")),
        file_(WriteFile("job.textproto",
                        "name: \"mlp\" epochs: 3 resources { workers: 2 servers: 1 }")) {}

  // The arguments of a run with fake daemons.
  std::vector<std::string> Arguments(const std::string& course,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {
        "run",
        file_,
        absl::StrCat("--out=", out_),
        absl::StrCat("--data_root=", directory_),
        absl::StrCat("--server_binary=", FakeServer(directory_, course)),
        absl::StrCat("--worker_binary=", IdleWorker(directory_))};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  nlohmann::json Job() const {
    return nlohmann::json::parse(ReadFile(out_ + "/job.json", 1 << 20).value_or("null"));
  }

  const std::string out_;
  const std::string file_;
};

TEST_F(RunTest, RunsAsTheJobFileAsks) {
  EXPECT_EQ(Run(Arguments("succeeds", {"--keep_logs", "--threads=3", "--set=epochs=1",
                                       "--memory_limit=64KiB"})),
            0)
      << err();
  EXPECT_EQ(out(), "job mlp SUCCEEDED steps=2 test_accuracy=0.7500 samples_per_second=1234\n");
  EXPECT_EQ(Job()["spec"]["epochs"], "1");
  EXPECT_EQ(Job()["spec"]["resources"]["workers"], 2);
  EXPECT_THAT(ReadFile(out_ + "/logs/worker-1.log", 10'000).value_or(""),
              HasSubstr("--threads=3 --backend=cpu --memory_limit=65536 --name=worker-1"));
}

TEST_F(RunTest, AWorkerOnAGpuHasOneThread) {
  EXPECT_EQ(Run(Arguments("succeeds", {"--keep_logs", "--backend=cuda"})), 0) << err();
  EXPECT_THAT(ReadFile(out_ + "/logs/worker-1.log", 10'000).value_or(""),
              HasSubstr("--threads=1 --backend=cuda"));
}

TEST_F(RunTest, FlagsGoBeforeTheJobFile) {
  EXPECT_EQ(Run(Arguments("succeeds", {"--workers=1", "--servers=2", "--keep_logs"})), 0) << err();
  EXPECT_EQ(Job()["spec"]["resources"]["workers"], 1);
  EXPECT_EQ(Job()["spec"]["resources"]["servers"], 2);
  EXPECT_FALSE(ReadFile(out_ + "/logs/worker-1.log", 10'000).ok());
  EXPECT_THAT(ReadFile(out_ + "/logs/server-1.log", 10'000).value_or(""),
              HasSubstr("--coordinator=127.0.0.1:"));
}

TEST_F(RunTest, AnEarlierRunIsNotOverwritten) {
  EXPECT_EQ(Run(Arguments("succeeds")), 0) << err();
  const std::vector<std::string> again = {"run",
                                          file_,
                                          "--out=" + out_,
                                          "--data_root=" + directory_,
                                          "--server_binary=" + directory_ + "/server-succeeds",
                                          "--worker_binary=" + directory_ + "/worker"};
  EXPECT_EQ(Run(again), 1);
  EXPECT_THAT(err(), HasSubstr("holds an earlier run"));
  EXPECT_EQ(out(), "");
  std::vector<std::string> overwrite = again;
  overwrite.push_back("--overwrite");
  EXPECT_EQ(Run(overwrite), 0) << err();
}

TEST_F(RunTest, WhatIsMissingIsNamed) {
  EXPECT_EQ(Run({"run", file_}), 2);
  EXPECT_THAT(err(), HasSubstr("--out=DIR is required"));
  EXPECT_EQ(Run({"run", file_, "--out", out_}), 2);
  EXPECT_THAT(err(), HasSubstr("--data_root=DIR is required"));
  EXPECT_EQ(Run({"run", file_, "--out", out_, "--data_root=/no/such"}), 5);
  EXPECT_THAT(err(), HasSubstr("--data_root: no directory /no/such"));
  EXPECT_EQ(Run({"run", file_, "--out", out_, "--data_root", directory_}), 5);
  EXPECT_THAT(err(), HasSubstr(absl::StrCat("no program ", directory_,
                                            "/../server/sangam-server or ", directory_,
                                            "/sangam-server; build it, or name it with "
                                            "--server_binary=PATH")));
  EXPECT_EQ(Run({"run", file_, "--out", out_, "--data_root", directory_, "--workers=0"}), 2);
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(RunTest, FindsDaemonsBesideItself) {
  std::filesystem::create_directories(directory_ + "/build/client");
  std::filesystem::create_directories(directory_ + "/build/server");
  std::filesystem::rename(FakeServer(directory_, "x"), directory_ + "/build/server/sangam-server");
  std::filesystem::rename(IdleWorker(directory_), directory_ + "/build/client/sangam-worker");
  environment_.program_directory = directory_ + "/build/client";
  EXPECT_EQ(Run({"run", file_, "--out", out_, "--data_root", directory_}), 0) << err();
}

TEST_F(RunTest, TooManyDaemonsAreRefused) {
  EXPECT_EQ(Run(Arguments("succeeds", {"--set=resources.workers=4000000000"})), 2);
  EXPECT_THAT(err(), HasSubstr("found 4000000000 workers and 1 servers, at most 1000"));
}

// The program itself: signals, exit codes and both streams.
TEST_F(RunTest, CtrlCStopsEverything) {
  const std::string log = directory_ + "/log";
  auto program = ChildProcess::Start("client/sangam", Arguments("waits"), log);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto text = [&log] { return ReadFile(log, 1 << 20).value_or(""); };
  const absl::Time until = absl::Now() + absl::Seconds(30);
  while (!absl::StrContains(text(), "step 1/2") && absl::Now() < until) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  (*program)->Signal(SIGINT);
  ASSERT_TRUE((*program)->WaitFor(absl::Seconds(30))) << text();
  EXPECT_EQ((*program)->ending(), "exited with status 130") << text();
  EXPECT_THAT(text(), HasSubstr("job mlp CANCELLED steps="));
  EXPECT_EQ(Job()["state"], "CANCELLED");
}

}  // namespace
}  // namespace sangam
