#include "client/commands/logs.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class LogsTest : public CommandFixture {
 protected:
  LogsTest() {
    environment_.coordinator = coordinator_.address();
    v1::Job job;
    job.set_id(7);
    job.mutable_spec()->set_name("mlp");
    coordinator_.AddJob(job);
    std::vector<v1::LogLine> lines;
    for (uint64_t i = 1; i <= 3; ++i) {
      v1::LogLine& line = lines.emplace_back();
      line.set_revision(i + 10);
      line.mutable_time()->set_seconds(1'700'000'000 + static_cast<int64_t>(i));
      line.mutable_time()->set_nanos(250'000'000);
      line.set_daemon(i == 2 ? "coordinator" : "worker w0");
      line.set_level("info");
      line.set_text(absl::StrCat("event job=7 n=", i));
    }
    lines[0].set_dropped(10);
    coordinator_.SetLog(lines);
  }

  FakeCoordinator coordinator_;
};

constexpr char kThird[] = "2023-11-14T22:13:23.250Z worker w0 info event job=7 n=3\n";

TEST_F(LogsTest, ShowsAllThatIsKept) {
  EXPECT_EQ(Run({"logs", "mlp"}), 0) << err();
  EXPECT_EQ(out(), absl::StrCat("(10 earlier lines are no longer kept)\n"
                                "2023-11-14T22:13:21.250Z worker w0 info event job=7 n=1\n"
                                "2023-11-14T22:13:22.250Z coordinator info event job=7 n=2\n",
                                kThird));
  EXPECT_EQ(Run({"logs", "8"}), 5);
}

TEST_F(LogsTest, ShowsTheLastLinesOrThoseOfADaemon) {
  EXPECT_EQ(Run({"logs", "7", "--tail=1"}), 0) << err();
  EXPECT_EQ(out(), kThird);
  EXPECT_EQ(Run({"logs", "7", "--tail=0"}), 0) << err();
  EXPECT_EQ(out(), "");
  EXPECT_EQ(Run({"logs", "7", "--daemon=coordinator"}), 0) << err();
  EXPECT_EQ(out(), "2023-11-14T22:13:22.250Z coordinator info event job=7 n=2\n");
}

TEST_F(LogsTest, FollowsAcrossOutagesWithoutSayingALineTwice) {
  EXPECT_EQ(Run({"logs", "7", "-f", "--tail=2"}), 0) << err();
  EXPECT_EQ(out(),
            absl::StrCat("2023-11-14T22:13:22.250Z coordinator info event job=7 n=2\n", kThird));
  EXPECT_EQ(Run({"logs", "7", "-f"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("n=1\n2023"));
  EXPECT_THAT(out(), HasSubstr(kThird));
  EXPECT_THAT(err(), HasSubstr("connection to the coordinator lost, trying again (scripted)\n"));
}

TEST_F(LogsTest, JsonIsALineALine) {
  EXPECT_EQ(Run({"logs", "7", "--tail=1", "--output=json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["text"], "event job=7 n=3");
}

}  // namespace
}  // namespace sangam
