#include "common/rpc/node_agent.h"

#include <grpcpp/support/status.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/job_log.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "tests/common/rpc/fake_cluster.h"

namespace sangam {
namespace {

using Heard = FakeCluster::Heard;
using grpc::StatusCode;

NodeAgent::Options AgentOptions(const std::string& coordinator) {
  NodeAgent::Options options;
  options.coordinator = coordinator;
  options.registration.mutable_daemon()->set_role(v1::WORKER);
  options.registration.mutable_daemon()->set_name("w-1");
  options.registration.mutable_daemon()->set_incarnation(5);
  return options;
}

v1::Assignment Assignment(uint64_t job) {
  v1::Assignment assignment;
  assignment.mutable_plan()->set_job(job);
  return assignment;
}

v1::JobReport Step(uint64_t step) {
  v1::JobReport report;
  report.mutable_step()->set_step(step);
  return report;
}

// Remembers what the agent hands over: the jobs of each call.
class Owner {
 public:
  using Jobs = std::vector<uint64_t>;

  NodeAgent::OnAssignments callback() {
    return [this](const std::vector<v1::Assignment>& assignments) {
      Jobs jobs;
      for (const v1::Assignment& assignment : assignments) {
        jobs.push_back(assignment.plan().job());
      }
      MutexLock lock(&mutex_);
      calls_.push_back(jobs);
      changed_.SignalAll();
      while (blocked_) changed_.WaitFor(&mutex_, absl::Seconds(1));
    };
  }
  std::vector<Jobs> calls() {
    MutexLock lock(&mutex_);
    return calls_;
  }
  void Block(bool blocked) {
    MutexLock lock(&mutex_);
    blocked_ = blocked;
    changed_.SignalAll();
  }
  // Waits for that many calls; false after 20 seconds.
  bool WaitForCalls(size_t count) {
    const absl::Duration deadline = Clock::Real().Steady() + absl::Seconds(20);
    MutexLock lock(&mutex_);
    while (calls_.size() < count) {
      const absl::Duration left = deadline - Clock::Real().Steady();
      if (left <= absl::ZeroDuration()) return false;
      changed_.WaitFor(&mutex_, left);
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool blocked_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Jobs> calls_ ABSL_GUARDED_BY(mutex_);
};

std::unique_ptr<NodeAgent> Started(const NodeAgent::Options& options,
                                   NodeAgent::OnAssignments callback) {
  auto agent = NodeAgent::Start(options, std::move(callback));
  EXPECT_TRUE(agent.ok()) << agent.status();
  return agent.ok() ? *std::move(agent) : nullptr;
}

// Polls for at most 20 seconds.
bool Eventually(const std::function<bool()>& condition) {
  const absl::Duration deadline = Clock::Real().Steady() + absl::Seconds(20);
  Mutex mutex;
  CondVar never;
  while (!condition()) {
    if (Clock::Real().Steady() > deadline) return false;
    MutexLock lock(&mutex);
    never.WaitFor(&mutex, absl::Milliseconds(5));
  }
  return true;
}

int Count(const Heard& heard, const std::string& what) {
  return static_cast<int>(std::count(heard.begin(), heard.end(), what));
}

TEST(NodeAgentTest, RegistersAndHandsOverWhatIsAssigned) {
  FakeCluster cluster;
  Owner owner;
  const auto agent = Started(AgentOptions(cluster.address()), owner.callback());
  EXPECT_EQ(agent->address(), "seen:7071");
  ASSERT_TRUE(owner.WaitForCalls(1));
  cluster.Assign({Assignment(3), Assignment(4)});
  ASSERT_TRUE(owner.WaitForCalls(2));
  cluster.Assign({});
  ASSERT_TRUE(owner.WaitForCalls(3));
  EXPECT_EQ(owner.calls(), (std::vector<Owner::Jobs>{{}, {3, 4}, {}}));
  EXPECT_EQ(cluster.heard(), (Heard{"register w-1/5"}));
  EXPECT_TRUE(agent->stopped().ok());
}

TEST(NodeAgentTest, StartGivesUpAndSaysWhatItTried) {
  std::string address;
  { address = FakeCluster().address(); }  // nobody is there any more
  NodeAgent::Options options = AgentOptions(address);
  options.start_deadline = absl::Milliseconds(400);
  const absl::Duration begin = Clock::Real().Steady();
  const auto agent = NodeAgent::Start(options, [](const auto&) {});
  EXPECT_EQ(agent.status().code(), absl::StatusCode::kUnavailable);
  const std::string message(agent.status().message());
  EXPECT_NE(message.find(absl::StrCat("the coordinator at ", address, " cannot be reached: ")),
            std::string::npos)
      << message;
  EXPECT_NE(message.find(" tries in 0."), std::string::npos) << message;
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(20));
}

TEST(NodeAgentTest, StartRefusesAMalformedAddress) {
  EXPECT_EQ(NodeAgent::Start(AgentOptions("nonsense"), [](const auto&) {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(NodeAgentTest, StartTriesUntilTheCoordinatorIsThere) {
  FakeCluster cluster;
  cluster.FailRegister({StatusCode::UNAVAILABLE, StatusCode::UNAVAILABLE});
  EXPECT_NE(Started(AgentOptions(cluster.address()), [](const auto&) {}), nullptr);
  EXPECT_EQ(Count(cluster.heard(), "register w-1/5"), 3);
}

TEST(NodeAgentTest, StartCanBeCancelled) {
  FakeCluster cluster;
  cluster.FailRegister(std::vector<StatusCode>(1000, StatusCode::UNAVAILABLE));
  NodeAgent::Options options = AgentOptions(cluster.address());
  options.cancelled = [&cluster] { return !cluster.heard().empty(); };
  EXPECT_EQ(NodeAgent::Start(options, [](const auto&) {}).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(NodeAgentTest, StartDoesNotRepeatWhatCannotSucceed) {
  FakeCluster cluster;
  cluster.FailRegister({StatusCode::FAILED_PRECONDITION});
  EXPECT_EQ(NodeAgent::Start(AgentOptions(cluster.address()), [](const auto&) {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  cluster.FailRegister({StatusCode::UNIMPLEMENTED});
  const auto agent = NodeAgent::Start(AgentOptions(cluster.address()), [](const auto&) {});
  EXPECT_NE(agent.status().message().find("is no coordinator"), absl::string_view::npos)
      << agent.status();
  EXPECT_EQ(Count(cluster.heard(), "register w-1/5"), 2);
}

TEST(NodeAgentTest, StartWaitsForTheNameOfAKilledProcess) {
  FakeCluster cluster;
  cluster.FailRegister({StatusCode::ALREADY_EXISTS, StatusCode::ALREADY_EXISTS});
  EXPECT_NE(Started(AgentOptions(cluster.address()), [](const auto&) {}), nullptr);
  cluster.FailRegister(std::vector<StatusCode>(1000, StatusCode::ALREADY_EXISTS));
  NodeAgent::Options options = AgentOptions(cluster.address());
  options.name_patience = absl::Milliseconds(200);
  EXPECT_EQ(NodeAgent::Start(options, [](const auto&) {}).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(NodeAgentTest, AsksNowAndThenWhereTheCoordinatorDoesNotWait) {
  FakeCluster cluster;
  cluster.SetLease(absl::Seconds(30));
  cluster.AnswerAtOnce();
  Owner owner;
  const auto agent = Started(AgentOptions(cluster.address()), owner.callback());
  ASSERT_TRUE(cluster.WaitForHeartbeats(2));
  const absl::Duration begin = Clock::Real().Steady();
  ASSERT_TRUE(cluster.WaitForHeartbeats(4));
  EXPECT_GE(Clock::Real().Steady() - begin, absl::Seconds(1)) << "a pause, or two";
  cluster.Assign({Assignment(7)});
  EXPECT_TRUE(owner.WaitForCalls(2)) << "news come all the same";
}

TEST(NodeAgentTest, ReportsArriveInOrderAndAgainUntilTheyAreTaken) {
  FakeCluster cluster;
  const auto agent = Started(AgentOptions(cluster.address()), [](const auto&) {});
  cluster.FailReport({StatusCode::UNAVAILABLE, StatusCode::NOT_FOUND, StatusCode::DEADLINE_EXCEEDED,
                      StatusCode::RESOURCE_EXHAUSTED});
  for (uint64_t step = 0; step < 3000; ++step) agent->Report(7, 1, Step(step));
  agent->Report(8, 2, Step(0));
  ASSERT_TRUE(cluster.WaitUntilHeard("report 8/2 step 0"));
  Heard taken;
  for (const std::string& what : cluster.heard()) {
    if (what.rfind("report", 0) == 0) taken.push_back(what);
  }
  ASSERT_EQ(taken.size(), 3001u);
  for (uint64_t step = 0; step < 3000; ++step) {
    ASSERT_EQ(taken[step], absl::StrCat("report 7/1 step ", step));
  }
  EXPECT_GE(Count(cluster.heard(), "refused report 7/1 step 0"), 4);
}

TEST(NodeAgentTest, ReportsThatAreNoLongerWantedAreDropped) {
  FakeCluster cluster;
  const auto agent = Started(AgentOptions(cluster.address()), [](const auto&) {});
  cluster.FailReport({StatusCode::ABORTED, StatusCode::INVALID_ARGUMENT});
  agent->Report(7, 1, Step(0));
  ASSERT_TRUE(cluster.WaitUntilHeard("refused report 7/1 step 0"));
  agent->Report(7, 1, Step(1));
  ASSERT_TRUE(cluster.WaitUntilHeard("refused report 7/1 step 1"));
  agent->Report(7, 1, Step(2));
  ASSERT_TRUE(cluster.WaitUntilHeard("report 7/1 step 2"));
  EXPECT_EQ(Count(cluster.heard(), "refused report 7/1 step 0"), 1);
  EXPECT_TRUE(agent->stopped().ok());
}

TEST(NodeAgentTest, RegistersAgainWhenItIsForgottenAndHearsEverythingAnew) {
  FakeCluster cluster;
  Owner owner;
  const auto agent = Started(AgentOptions(cluster.address()), owner.callback());
  cluster.Assign({Assignment(3)});
  ASSERT_TRUE(Eventually(
      [&owner] { return !owner.calls().empty() && owner.calls().back() == Owner::Jobs{3}; }));
  const size_t calls = owner.calls().size();
  cluster.FailHeartbeat({StatusCode::NOT_FOUND});
  ASSERT_TRUE(owner.WaitForCalls(calls + 1));
  EXPECT_EQ(owner.calls().back(), Owner::Jobs{3});
  EXPECT_EQ(Count(cluster.heard(), "register w-1/5"), 2);
}

TEST(NodeAgentTest, StopsWhenAnotherProcessHasTheName) {
  FakeCluster cluster;
  const auto agent = Started(AgentOptions(cluster.address()), [](const auto&) {});
  cluster.FailHeartbeat({StatusCode::ABORTED});
  ASSERT_TRUE(Eventually([&agent] { return !agent->stopped().ok(); }));
  EXPECT_EQ(agent->stopped().code(), absl::StatusCode::kAborted);
  agent->Report(7, 1, Step(0));
  agent->Leave("end", absl::Seconds(20));
  EXPECT_EQ(cluster.heard(), (Heard{"register w-1/5"}));
}

TEST(NodeAgentTest, WaitsWhenTooManyReportsWait) {
  auto cluster = std::make_unique<FakeCluster>();
  const std::string address = cluster->address();
  NodeAgent::Options options = AgentOptions(address);
  options.max_reports = 10;
  const auto agent = Started(options, [](const auto&) {});
  cluster.reset();
  for (uint64_t step = 0; step < 10; ++step) agent->Report(7, 1, Step(step));
  std::atomic<bool> reported{false};
  std::thread reporter([&agent, &reported] {
    for (uint64_t step = 10; step < 30; ++step) agent->Report(7, 1, Step(step));
    reported = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(reported);
  EXPECT_TRUE(agent->stopped().ok());
  // Nothing is lost when the coordinator is back.
  cluster = std::make_unique<FakeCluster>(address);
  EXPECT_TRUE(cluster->WaitUntilHeard("report 7/1 step 29"));
  reporter.join();
  EXPECT_TRUE(agent->stopped().ok());
}

TEST(NodeAgentTest, EndWaitsLetsGoOfWhoWaits) {
  auto cluster = std::make_unique<FakeCluster>();
  NodeAgent::Options options = AgentOptions(cluster->address());
  options.max_reports = 10;
  const auto agent = Started(options, [](const auto&) {});
  cluster.reset();
  std::thread reporter([&agent] {
    for (uint64_t step = 0; step < 30; ++step) agent->Report(7, 1, Step(step));
  });
  agent->EndWaits();
  reporter.join();
  agent->Leave("SIGTERM", absl::Milliseconds(100));
}

TEST(NodeAgentTest, GoesOnWhenTheCoordinatorIsStartedAgain) {
  auto cluster = std::make_unique<FakeCluster>();
  const std::string address = cluster->address();
  Owner owner;
  const auto agent = Started(AgentOptions(address), owner.callback());
  ASSERT_TRUE(owner.WaitForCalls(1));
  cluster.reset();
  agent->Report(7, 1, Step(0));
  cluster = std::make_unique<FakeCluster>(address);
  cluster->FailHeartbeat({StatusCode::NOT_FOUND});
  EXPECT_TRUE(cluster->WaitUntilHeard("register w-1/5"));
  EXPECT_TRUE(cluster->WaitUntilHeard("report 7/1 step 0"));
  EXPECT_TRUE(owner.WaitForCalls(2));
  EXPECT_TRUE(agent->stopped().ok());
}

TEST(NodeAgentTest, ASlowOwnerDoesNotStopTheSignsOfLifeAndSeesTheLastState) {
  FakeCluster cluster;
  Owner owner;
  owner.Block(true);
  const auto agent = Started(AgentOptions(cluster.address()), owner.callback());
  ASSERT_TRUE(owner.WaitForCalls(1));
  for (uint64_t job = 1; job <= 5; ++job) {
    const int heartbeats = cluster.heartbeats();
    cluster.Assign({Assignment(job)});
    ASSERT_TRUE(cluster.WaitForHeartbeats(heartbeats + 1));
  }
  EXPECT_EQ(owner.calls().size(), 1u);
  owner.Block(false);
  ASSERT_TRUE(Eventually([&owner] { return owner.calls().back() == Owner::Jobs{5}; }));
  EXPECT_LE(owner.calls().size(), 3u);
}

TEST(NodeAgentTest, LeaveDeliversWhatWaitsThenSaysGoodbye) {
  FakeCluster cluster;
  cluster.SetLease(absl::Minutes(5));  // a heartbeat waits for more than a minute
  Owner owner;
  const auto agent = Started(AgentOptions(cluster.address()), owner.callback());
  ASSERT_TRUE(cluster.WaitForHeartbeats(2));  // the second one waits for news
  cluster.FailReport({StatusCode::UNAVAILABLE});
  for (uint64_t step = 0; step < 5; ++step) agent->Report(7, 1, Step(step));
  const absl::Duration begin = Clock::Real().Steady();
  agent->Leave("SIGTERM", absl::Seconds(20));
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(20));
  const Heard heard = cluster.heard();
  ASSERT_GE(heard.size(), 3u);
  EXPECT_EQ(heard.back(), "leave w-1 SIGTERM");
  EXPECT_EQ(heard[heard.size() - 2], "report 7/1 step 4");
  const size_t calls = owner.calls().size();
  cluster.Assign({Assignment(1)});
  agent->Leave("again", absl::Seconds(20));
  EXPECT_EQ(owner.calls().size(), calls);
  EXPECT_EQ(cluster.heard(), heard);
}

TEST(NodeAgentTest, LeaveIsBoundedWhenTheCoordinatorIsGone) {
  auto cluster = std::make_unique<FakeCluster>();
  const auto agent = Started(AgentOptions(cluster->address()), [](const auto&) {});
  cluster.reset();
  agent->Report(7, 1, Step(0));
  const absl::Duration begin = Clock::Real().Steady();
  agent->Leave("SIGTERM", absl::Milliseconds(300));
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(20));
}

TEST(NodeAgentTest, DrainWaitsUntilItsJobsCanDoWithoutIt) {
  FakeCluster cluster;
  cluster.SetLease(absl::Minutes(5));  // a heartbeat waits for more than a minute
  cluster.Assign({Assignment(7)});
  Owner owner;
  const auto agent = Started(AgentOptions(cluster.address()), owner.callback());
  ASSERT_TRUE(cluster.WaitForHeartbeats(2));  // the second one waits for news
  EXPECT_FALSE(agent->draining());
  std::atomic<bool> drained{false};
  std::thread drain([&] { drained = agent->Drain(absl::Seconds(60)); });
  ASSERT_TRUE(cluster.WaitUntilHeard("drains w-1"));
  EXPECT_TRUE(agent->draining());
  // It works on meanwhile.
  agent->Report(7, 1, Step(3));
  ASSERT_TRUE(cluster.WaitUntilHeard("report 7/1 step 3"));
  EXPECT_FALSE(drained);
  const absl::Duration begin = Clock::Real().Steady();
  cluster.Assign({});
  drain.join();
  EXPECT_TRUE(drained);
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(20));
}

// Between Drain's word and its call a heartbeat may begin that says it, and is ended by it.
TEST(NodeAgentTest, AHeartbeatThatDrainEndsIsNoLostCoordinator) {
  class AwaitsHeartbeat : public LogObserver {
   public:
    explicit AwaitsHeartbeat(FakeCluster* cluster) : cluster_(cluster) {}
    void OnLine(LogLevel, absl::string_view line) override {
      if (absl::StrContains(line, "drains")) heard_ = cluster_->WaitUntilHeard("drains w-1");
    }
    bool heard() const { return heard_; }

   private:
    FakeCluster* const cluster_;
    bool heard_ = false;
  };
  FakeCluster cluster;
  cluster.SetLease(absl::Seconds(1));
  // It has no job, but the coordinator has something for it.
  v1::Assignment held = Assignment(7);
  held.set_phase(v1::Assignment::HOLD);
  cluster.Assign({held});
  Owner owner;
  const auto agent = Started(AgentOptions(cluster.address()), owner.callback());
  ASSERT_TRUE(owner.WaitForCalls(1));
  AwaitsHeartbeat waits(&cluster);
  const ObserveLog observe(&waits);
  EXPECT_FALSE(agent->Drain(absl::Milliseconds(500)));
  EXPECT_TRUE(waits.heard());
}

TEST(NodeAgentTest, ADrainedDaemonAsksNoMoreOftenThanOthers) {
  FakeCluster cluster;
  const auto agent = Started(AgentOptions(cluster.address()), [](const auto&) {});
  EXPECT_TRUE(agent->Drain(absl::Minutes(5)));
  const int before = cluster.heartbeats();
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  never.WaitFor(&mutex, absl::Seconds(1));
  EXPECT_LE(cluster.heartbeats(), before + 3);
}

TEST(NodeAgentTest, DrainIsBounded) {
  auto cluster = std::make_unique<FakeCluster>();
  cluster->SetLease(absl::Milliseconds(500));
  cluster->Assign({Assignment(7)});
  Owner owner;
  const auto agent = Started(AgentOptions(cluster->address()), owner.callback());
  ASSERT_TRUE(owner.WaitForCalls(1));
  EXPECT_FALSE(agent->Drain(absl::Milliseconds(200)));
  // Nobody answers: by the end of a lease its jobs are given to others anyway.
  cluster.reset();
  const absl::Duration begin = Clock::Real().Steady();
  EXPECT_FALSE(agent->Drain(absl::Minutes(5)));
  EXPECT_LT(Clock::Real().Steady() - begin, absl::Seconds(60));
}

TEST(NodeAgentTest, WithoutJobsAndCoordinatorItIsDrained) {
  auto cluster = std::make_unique<FakeCluster>();
  cluster->SetLease(absl::Minutes(5));
  const auto agent = Started(AgentOptions(cluster->address()), [](const auto&) {});
  ASSERT_TRUE(cluster->WaitForHeartbeats(2));
  cluster.reset();
  EXPECT_TRUE(agent->Drain(absl::Minutes(5)));
}

TEST(NodeAgentTest, SendsTheLinesOfItsLogAndTheLastOnesBeforeItLeaves) {
  FakeCluster cluster;
  JobLog log({});
  NodeAgent::Options options = AgentOptions(cluster.address());
  options.log = &log;
  cluster.FailReport({StatusCode::UNAVAILABLE});
  const auto agent = Started(options, [](const auto&) {});
  log.OnLine(LogLevel::kInfo, "first job=7");
  EXPECT_TRUE(cluster.WaitUntilHeard("report 7/0 log first job=7"));
  log.OnLine(LogLevel::kInfo, "last job=8");
  agent->Leave("enough", absl::Seconds(20));
  const Heard heard = cluster.heard();
  ASSERT_GE(heard.size(), 2u);
  EXPECT_EQ(heard[heard.size() - 2], "report 8/0 log last job=8");
  EXPECT_EQ(heard.back(), "leave w-1 enough");
  EXPECT_EQ(Count(heard, "report 7/0 log first job=7"), 1);
}

}  // namespace
}  // namespace sangam
