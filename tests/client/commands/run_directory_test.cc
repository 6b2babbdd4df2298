#include "client/commands/run_directory.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/script.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class RunDirectoryTest : public ::testing::Test {
 protected:
  RunDirectoryTest() : path_(FreshDirectory("run_directory_test") + "/a/b") {}

  std::unique_ptr<RunDirectory> Create(bool overwrite) const {
    auto directory = RunDirectory::Create(path_, overwrite);
    EXPECT_TRUE(directory.ok()) << directory.status();
    return *std::move(directory);
  }
  std::string Read(const std::string& name) const {
    return ReadFile(absl::StrCat(path_, "/", name), 1 << 20).value_or("none");
  }
  void Write(const std::string& name) const {
    EXPECT_TRUE(WriteFileAtomically(absl::StrCat(path_, "/", name), "x").ok());
  }

  const std::string path_;
};

TEST_F(RunDirectoryTest, KeepsMetricsAndTheJob) {
  const auto directory = Create(false);
  v1::JobEvent event;
  event.mutable_step()->set_step(3);
  EXPECT_TRUE(directory->AddMetrics(event).ok());
  EXPECT_TRUE(directory->AddMetrics(v1::JobEvent()).ok());
  EXPECT_EQ(Read("metrics.jsonl"), "");
  EXPECT_TRUE(directory->Flush().ok());
  EXPECT_TRUE(directory->AddMetrics(event).ok());
  EXPECT_TRUE(directory->Flush().ok());
  const std::string metrics = Read("metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 2);
  EXPECT_EQ(nlohmann::json::parse(metrics.substr(0, metrics.find('\n')))["step"], 3);
  v1::Job job;
  job.set_id(7);
  EXPECT_TRUE(directory->WriteJob(job).ok());
  EXPECT_EQ(nlohmann::json::parse(Read("job.json"))["id"], "7");
}

TEST_F(RunDirectoryTest, ManyMetricsAreWrittenWithoutBeingAsked) {
  const auto directory = Create(false);
  v1::JobEvent event;
  event.mutable_step()->set_step(3);
  for (int i = 0; i < 2000; ++i) EXPECT_TRUE(directory->AddMetrics(event).ok());
  EXPECT_GT(Read("metrics.jsonl").size(), 64u * 1024u);
}

TEST_F(RunDirectoryTest, AnEarlierRunIsKeptUnlessAskedOtherwise) {
  Create(false);
  Write("model.safetensors");
  Write("logs/server-0.log");
  Write("mine.txt");
  const absl::Status status = RunDirectory::Create(path_, false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("holds an earlier run (model.safetensors); choose another --out, or replace "
                "it with --overwrite"));
  EXPECT_EQ(Read("model.safetensors"), "x");
  EXPECT_EQ(Read("logs/server-0.log"), "x");

  Create(true);
  EXPECT_EQ(Read("model.safetensors"), "none");
  EXPECT_EQ(Read("logs/server-0.log"), "none");
  EXPECT_EQ(Read("mine.txt"), "x");
}

TEST_F(RunDirectoryTest, AnExistingDirectoryWithoutARunIsFine) {
  ASSERT_TRUE(MakeDirectories(path_).ok());
  Write("mine.txt");
  Create(false);
  EXPECT_EQ(Read("mine.txt"), "x");
}

TEST_F(RunDirectoryTest, RemovesOnlyItsOwnLogs) {
  const auto directory = Create(false);
  Write("logs/server-0.log");
  directory->RemoveLogs();
  EXPECT_FALSE(std::filesystem::exists(directory->logs_path()));
  ASSERT_TRUE(MakeDirectories(directory->logs_path()).ok());
  Write("logs/worker-0.log");
  Write("logs/notes");
  directory->RemoveLogs();
  EXPECT_EQ(Read("logs/worker-0.log"), "none");
  EXPECT_EQ(Read("logs/notes"), "x");
}

TEST_F(RunDirectoryTest, AFileInTheWayIsAnError) {
  ASSERT_TRUE(MakeDirectories(path_).ok());
  Write("out");
  const absl::Status status = RunDirectory::Create(path_ + "/out", true).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not a directory"));
}

}  // namespace
}  // namespace sangam
