#include "common/rpc/completion_queue_thread.h"

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/alarm_time.h"
#include "common/rpc/completion_tag.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

// Sets an alarm and notes its completion.
class AlarmUser : public std::enable_shared_from_this<AlarmUser> {
 public:
  explicit AlarmUser(bool* destroyed) : destroyed_(destroyed) {}
  ~AlarmUser() { *destroyed_ = true; }

  void Set(grpc::CompletionQueue* queue, absl::Duration delay) {
    alarm_.Set(queue, AlarmTimeAfter(delay), tag_.Arm(shared_from_this()));
  }
  void Cancel() { alarm_.Cancel(); }

  // Waits for the completion; what it said.
  bool WaitForOk() {
    MutexLock lock(&mutex_);
    while (!done_) done_changed_.WaitFor(&mutex_, absl::Seconds(30));
    return ok_;
  }
  std::thread::id thread() {
    MutexLock lock(&mutex_);
    return thread_;
  }

 private:
  void OnAlarm(bool ok) {
    MutexLock lock(&mutex_);
    done_ = true;
    ok_ = ok;
    thread_ = std::this_thread::get_id();
    done_changed_.SignalAll();
  }

  bool* const destroyed_;
  grpc::Alarm alarm_;
  OperationTag<AlarmUser> tag_{&AlarmUser::OnAlarm};
  Mutex mutex_;
  CondVar done_changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool ok_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread::id thread_ ABSL_GUARDED_BY(mutex_);
};

TEST(CompletionQueueThreadTest, CompletesOnItsThread) {
  CompletionQueueThread thread(std::make_unique<grpc::CompletionQueue>());
  thread.Start();
  bool destroyed = false;
  const auto user = std::make_shared<AlarmUser>(&destroyed);
  user->Set(thread.queue(), absl::ZeroDuration());
  EXPECT_TRUE(user->WaitForOk());
  EXPECT_NE(user->thread(), std::this_thread::get_id());
}

TEST(CompletionQueueThreadTest, PendingOperationKeepsItsOwnerAlive) {
  CompletionQueueThread thread(std::make_unique<grpc::CompletionQueue>());
  bool destroyed = false;
  auto user = std::make_shared<AlarmUser>(&destroyed);
  user->Set(thread.queue(), absl::Hours(1));
  std::weak_ptr<AlarmUser> weak = user;
  user->Cancel();
  user.reset();
  EXPECT_FALSE(destroyed);
  thread.Start();
  thread.Shutdown();
  EXPECT_TRUE(destroyed);
  EXPECT_TRUE(weak.expired());
}

TEST(CompletionQueueThreadTest, ShutdownWaitsForWhatIsPending) {
  CompletionQueueThread thread(std::make_unique<grpc::CompletionQueue>());
  thread.Start();
  bool destroyed = false;
  auto user = std::make_shared<AlarmUser>(&destroyed);
  user->Set(thread.queue(), absl::Milliseconds(20));
  user.reset();
  thread.Shutdown();
  EXPECT_TRUE(destroyed);
  thread.Shutdown();
}

TEST(CompletionQueueThreadTest, QueueWithoutThreadIsDrainedAllTheSame) {
  bool destroyed = false;
  {
    CompletionQueueThread thread(std::make_unique<grpc::CompletionQueue>());
    auto user = std::make_shared<AlarmUser>(&destroyed);
    user->Set(thread.queue(), absl::ZeroDuration());
  }
  EXPECT_TRUE(destroyed);
}

}  // namespace
}  // namespace sangam
