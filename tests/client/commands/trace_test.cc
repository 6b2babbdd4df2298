#include "client/commands/trace.h"

#include <string>

#include "client/files.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class TraceTest : public CommandFixture {
 protected:
  TraceTest() {
    environment_.coordinator = coordinator_.address();
    v1::Job job;
    job.set_id(7);
    job.mutable_spec()->set_name("mlp");
    coordinator_.AddJob(job);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(
          job: 7
          name: "mlp"
          block: "a"
          worker {
            worker: "w0"
            step {
              step: 3
              event { activity: FORWARD begin_us: 5 duration_us: 6 }
            }
            step {
              step: 4
              event { activity: FORWARD begin_us: 15 duration_us: 6 }
            }
          })pb",
        &trace_));
    coordinator_.SetTrace(trace_);
  }
  std::string Read(const std::string& name) const {
    return ReadFile(directory_ + "/" + name, 1 << 20).value_or("");
  }

  FakeCoordinator coordinator_;
  v1::JobTrace trace_;
};

TEST_F(TraceTest, WritesAFile) {
  const std::string path = directory_ + "/trace.json";
  EXPECT_EQ(Run({"trace", "mlp", "-o", path}), 0) << err();
  EXPECT_EQ(out(), path + ": 2 events of 1 worker, 2 steps (3 to 4)\n");
  const nlohmann::json json = nlohmann::json::parse(Read("trace.json"));
  EXPECT_EQ(json["traceEvents"].back()["name"], "forward a mb 0");
  // The long form does the same.
  EXPECT_EQ(Run({"trace", "7", "--out=" + directory_ + "/again.json"}), 0) << err();
  EXPECT_EQ(Read("again.json"), Read("trace.json"));
}

TEST_F(TraceTest, ADashIsTheOutput) {
  EXPECT_EQ(Run({"trace", "7", "-o", "-"}), 0) << err();
  EXPECT_EQ(nlohmann::json::parse(out())["otherData"]["name"], "mlp");
  EXPECT_EQ(err(), "");
}

TEST_F(TraceTest, OneStepIsNamed) {
  trace_.mutable_worker(0)->mutable_step()->RemoveLast();
  coordinator_.SetTrace(trace_);
  EXPECT_EQ(Run({"trace", "7", "-o", directory_ + "/t"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("/t: 1 event of 1 worker, step 3\n"));
}

TEST_F(TraceTest, ErrorsLeaveNoFile) {
  EXPECT_EQ(Run({"trace", "7"}), 2);
  EXPECT_THAT(err(), HasSubstr("--out=FILE (or -o FILE) is required"));
  EXPECT_EQ(Run({"trace", "8", "-o", directory_ + "/none"}), 5);
  EXPECT_EQ(err(), "sangam trace: no job 8\n");
  EXPECT_EQ(Read("none"), "");
  EXPECT_EQ(Run({"trace", "7", "-o", directory_ + "/no/such/place"}), 1);
  EXPECT_THAT(err(), HasSubstr("/no/such/place"));
}

}  // namespace
}  // namespace sangam
