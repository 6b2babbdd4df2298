// Several jobs on one cluster: side by side when there are workers for them, else one after the
// other, and never at all what can never be.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kDeadline = absl::Seconds(120);

class SeveralJobsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = FreshFolder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    const std::string data = FreshFolder("several-jobs-data");
    WriteTestData(data, 200, 70);
    cluster_ = std::make_unique<Cluster>(Cluster::Options{folder_, data, "5s"});
    cluster_->StartCoordinator("all");
    cluster_->StartServer("s2");
    for (const char* worker : {"w1", "w2", "w3", "w4"}) cluster_->StartWorker(worker);
  }

  static TestJob Job(const std::string& name, int workers, int epochs) {
    TestJob job;
    job.name = name;
    job.workers = workers;
    job.servers = 2;
    job.epochs = epochs;
    return job;
  }
  Finished Client(const std::vector<std::string>& arguments) {
    return cluster_->Client(arguments, kDeadline);
  }
  void Succeeds(const std::string& job) {
    const Finished waited = Client({"wait", job, "--timeout=100s"});
    EXPECT_EQ(waited.exit_code, 0) << waited.output;
  }
  std::string Weights(const std::string& job) {
    const std::string path = absl::StrCat(folder_, "/", job, ".safetensors");
    const Finished exported = Client({"export", job, "--out", path});
    EXPECT_EQ(exported.exit_code, 0) << exported.output;
    const auto weights = ReadFile(path);
    return weights.ok() ? *weights : "";
  }

  std::string folder_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(SeveralJobsTest, TwoAtOnceHaveTheWeightsThatTheyHaveAlone) {
  TestJob a = Job("a", 2, 400);
  TestJob b = Job("b", 2, 400);
  b.optimizer = "learning_rate: 0.002 adamw {}";
  std::vector<std::string> alone;
  for (const TestJob& job : {a, b}) {
    cluster_->Submit(JobText(job));
    Succeeds(job.name);
    alone.push_back(Weights(job.name));
    ASSERT_FALSE(alone.back().empty());
  }
  cluster_->Submit(JobText(a));
  cluster_->Submit(JobText(b));
  for (const char* job : {"a", "b"}) {
    EXPECT_EQ(Client({"wait", job, "--for=RUNNING", "--timeout=60s"}).exit_code, 0);
  }
  EXPECT_THAT(Client({"list", "--state=RUNNING", "--output=json"}).output,
              AllOf(HasSubstr("\"id\": \"3\""), HasSubstr("\"id\": \"4\"")));
  Succeeds("a");
  Succeeds("b");
  EXPECT_TRUE(Weights("a") == alone[0]);
  EXPECT_TRUE(Weights("b") == alone[1]);
}

TEST_F(SeveralJobsTest, ASecondJobOfThreeOfFourWorkersWaitsAndOneOfFiveIsRefused) {
  cluster_->Submit(JobText(Job("first", 3, 1000000)));
  cluster_->Submit(JobText(Job("second", 3, 2)));
  EXPECT_EQ(Client({"wait", "first", "--for=RUNNING", "--timeout=60s"}).exit_code, 0);
  const auto waiting = cluster_->AwaitDescription(
      "second", "waiting for 2 of 3 workers, busy with job 1 (first)", absl::Seconds(20));
  EXPECT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_THAT(Client({"list", "--state=QUEUED"}).output,
              AllOf(HasSubstr("second"), Not(HasSubstr("first"))));

  const std::string five = absl::StrCat(folder_, "/five.textproto");
  WriteFile(five, JobText(Job("five", 5, 1)));
  for (const char* flag : {"--validate_only", "--validate_only=false"}) {
    const Finished refused = Client({"submit", five, flag});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.output, HasSubstr("needs 5 workers, cluster has 4 (w1, w2, w3, w4)"));
  }
  EXPECT_EQ(Client({"wait", "second", "--timeout=300ms"}).exit_code, 9);
  EXPECT_EQ(Client({"delete", "first"}).exit_code, 2);

  EXPECT_EQ(Client({"cancel", "first"}).exit_code, 0);
  EXPECT_EQ(Client({"wait", "first"}).exit_code, 4);
  Succeeds("second");
  // What the first one held is free: its share of the second one's figure is all there is.
  EXPECT_THAT(Client({"describe", "first", "--output=json"}).output,
              HasSubstr("\"server_memory_bytes\": \"0\""));
  const std::string log = Client({"logs", "second"}).output;
  EXPECT_THAT(log, HasSubstr(" coordinator info job changed job=2 name=second state=RUNNING"));
  EXPECT_THAT(log, HasSubstr(" worker w1 info job prepared job=2 "));
  EXPECT_THAT(log, HasSubstr(" server s2 info job prepared job=2 "));
  EXPECT_THAT(Client({"logs", "second", "--daemon=w1", "-f"}).output,
              AllOf(HasSubstr("worker w1"), Not(HasSubstr("coordinator"))));
  EXPECT_EQ(Client({"delete", "second"}).exit_code, 0);
  EXPECT_EQ(Client({"wait", "second"}).exit_code, 5);
}

}  // namespace
}  // namespace sangam::testing
