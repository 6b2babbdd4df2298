#include "worker/runtime/event_queue.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "worker/backend/backend.h"

namespace sangam {
namespace {

// An event that somebody lets pass.
class GateEvent : public BackendEvent {
 public:
  explicit GateEvent(bool open = false) : open_(open) {}
  absl::Status Wait() const override {
    MutexLock lock(&mutex_);
    while (!open_) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
    return status_;
  }
  void Open(const absl::Status& status = absl::OkStatus()) {
    MutexLock lock(&mutex_);
    open_ = true;
    status_ = status;
    changed_.SignalAll();
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool open_;
  absl::Status status_;
};

class EventQueueTest : public ::testing::Test {
 protected:
  EventQueue::Entry Entry(std::shared_ptr<GateEvent> event, int number,
                          const absl::Status& status = absl::OkStatus()) {
    EventQueue::Entry entry;
    entry.event = std::move(event);
    entry.action = [this, number, status] {
      done_.push_back(number);
      return status;
    };
    entry.where = [number] { return "entry " + std::to_string(number); };
    return entry;
  }

  std::vector<int> done_;
  std::vector<absl::Status> failures_;
  EventQueue queue_{2, [this](const absl::Status& status) { failures_.push_back(status); }};
};

TEST_F(EventQueueTest, ActsInOrderWhenTheEventsHavePassed) {
  const auto first = std::make_shared<GateEvent>();
  EXPECT_EQ(queue_.Add(Entry(first, 1)).value(), 1);
  EXPECT_EQ(queue_.Add(Entry(std::make_shared<GateEvent>(true), 2)).value(), 2);
  EXPECT_TRUE(queue_.AwaitDone(0).ok());
  EXPECT_TRUE(done_.empty());
  first->Open();
  EXPECT_TRUE(queue_.AwaitDone(2).ok());
  EXPECT_EQ(done_, (std::vector<int>{1, 2}));
  EXPECT_TRUE(queue_.Finish().ok());
  EXPECT_TRUE(failures_.empty());
}

TEST_F(EventQueueTest, WaitsForRoom) {
  const auto gate = std::make_shared<GateEvent>();
  ASSERT_TRUE(queue_.Add(Entry(gate, 1)).ok());
  ASSERT_TRUE(queue_.Add(Entry(gate, 2)).ok());
  std::atomic<bool> added{false};
  std::thread third([&] {
    EXPECT_TRUE(queue_.Add(Entry(gate, 3)).ok());
    added = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(added);
  gate->Open();
  third.join();
  EXPECT_TRUE(queue_.Finish().ok());
  EXPECT_EQ(done_, (std::vector<int>{1, 2, 3}));
}

TEST_F(EventQueueTest, LetsGoOfWhatItHeldBeforeItCountsAsDone) {
  const auto held = std::make_shared<int>(7);
  EventQueue::Entry entry = Entry(std::make_shared<GateEvent>(true), 1);
  entry.action = [held] { return absl::OkStatus(); };
  const uint64_t number = queue_.Add(std::move(entry)).value();
  ASSERT_TRUE(queue_.AwaitDone(number).ok());
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(EventQueueTest, TheFirstFailureEndsIt) {
  const auto gate = std::make_shared<GateEvent>();
  ASSERT_TRUE(queue_.Add(Entry(gate, 1)).ok());
  ASSERT_TRUE(queue_.Add(Entry(gate, 2)).ok());
  gate->Open(absl::InternalError("the device failed"));
  const absl::Status expected = absl::InternalError("entry 1: the device failed");
  EXPECT_EQ(queue_.AwaitDone(2), expected);
  EXPECT_EQ(queue_.Add(Entry(gate, 3)).status(), expected);
  EXPECT_EQ(queue_.Finish(), expected);
  EXPECT_EQ(failures_, std::vector<absl::Status>{expected});
  EXPECT_TRUE(done_.empty());
}

TEST_F(EventQueueTest, AnActionsFailureCountsToo) {
  ASSERT_TRUE(
      queue_.Add(Entry(std::make_shared<GateEvent>(true), 4, absl::AbortedError("no"))).ok());
  EXPECT_EQ(queue_.Finish(), absl::AbortedError("entry 4: no"));
  EXPECT_EQ(failures_.size(), 1);
}

TEST_F(EventQueueTest, StopLeavesTheRestUndone) {
  const auto gate = std::make_shared<GateEvent>();
  ASSERT_TRUE(queue_.Add(Entry(gate, 1)).ok());
  ASSERT_TRUE(queue_.Add(Entry(gate, 2)).ok());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate->Open();
  });
  queue_.Stop();
  opener.join();
  EXPECT_LE(done_.size(), 1);
}

}  // namespace
}  // namespace sangam
