#include "client/commands/export.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"
#include "tests/client/weights_job.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class ExportTest : public CommandFixture {
 protected:
  ExportTest() : file_(absl::StrCat(directory_, "/model.safetensors")) {
    environment_.coordinator = coordinator_.address();
    coordinator_.AddJob(JobWithWeights(7, coordinator_.address()));
    coordinator_.SetPages({PageOfWeights(7)}, grpc::Status::OK);
  }

  FakeCoordinator coordinator_;
  const std::string file_;
};

TEST_F(ExportTest, WritesTheWeights) {
  EXPECT_EQ(Run({"export", "7", "--out", file_}), 0) << err();
  EXPECT_EQ(out(), file_ + ": 1 tensor, 16 B, step 9\n");
  const std::string bytes = *ReadFile(file_, 10'000);
  EXPECT_EQ(bytes.substr(bytes.size() - 16), std::string(16, 'w'));
  EXPECT_EQ(Run({"export", "7", "--out", file_, "--output=json"}), 0);
  const auto summary = nlohmann::json::parse(out());
  EXPECT_EQ(summary["bytes"], 16);
  EXPECT_EQ(summary["file"], file_);
  EXPECT_EQ(*ReadFile(file_, 10'000), bytes);
}

TEST_F(ExportTest, NeedsAFileName) {
  EXPECT_EQ(Run({"export", "7"}), 2);
  EXPECT_THAT(err(), HasSubstr("--out=FILE is required"));
}

TEST_F(ExportTest, FailuresLeaveNoFile) {
  coordinator_.SetPages({}, grpc::Status::OK);
  EXPECT_EQ(Run({"export", "7", "--out", file_}), 2);
  EXPECT_THAT(err(), HasSubstr("no server sent elements [0, 4)"));
  EXPECT_FALSE(ReadFile(file_, 10'000).ok());
  EXPECT_EQ(Run({"export", "8", "--out", file_}), 5);
  EXPECT_EQ(Run({"export", "7", "--out", directory_ + "/no/x"}), 2);
}

}  // namespace
}  // namespace sangam
