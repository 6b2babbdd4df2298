#include "common/rpc/periodic_check.h"

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/completion_queue_thread.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

class CountingCall : public ServedCall {
 public:
  void End(const absl::Status& /*error*/) override {}
  void Check(absl::Duration /*now*/) override { ++checks_; }
  int checks() const { return checks_; }

 private:
  std::atomic<int> checks_{0};
};

TEST(PeriodicCheckTest, LooksAgainAndAgainUntilItIsStopped) {
  CallRegistry registry(/*max_calls=*/1);
  ActivityCount activities;
  auto call = std::make_shared<CountingCall>();
  ASSERT_TRUE(registry.Add(call).ok());
  CompletionQueueThread thread(std::make_unique<grpc::CompletionQueue>());
  thread.Start();
  const auto check = std::make_shared<PeriodicCheck>(&registry, &activities, absl::Milliseconds(2),
                                                     thread.queue());
  check->Start();
  const absl::Duration until = Clock::Real().Steady() + absl::Seconds(60);
  while (call->checks() < 3 && Clock::Real().Steady() < until) {
    EXPECT_FALSE(activities.WaitForNone(absl::Milliseconds(1)));
  }
  EXPECT_GE(call->checks(), 3);
  check->Stop();
  EXPECT_TRUE(activities.WaitForNone(absl::Seconds(60)));
  thread.Shutdown();
  registry.Remove(call.get());
}

}  // namespace
}  // namespace sangam
