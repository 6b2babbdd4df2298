#include "worker/runtime/event_queue.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"

namespace sangam {

EventQueue::EventQueue(size_t max_entries, std::function<void(const absl::Status&)> on_failure)
    : max_entries_(max_entries), on_failure_(std::move(on_failure)), thread_([this] { Work(); }) {}

EventQueue::~EventQueue() { Stop(); }

absl::StatusOr<uint64_t> EventQueue::Add(Entry entry) {
  MutexLock lock(&mutex_);
  while (failure_.ok() && entries_.size() >= max_entries_) {
    changed_.WaitFor(&mutex_, absl::InfiniteDuration());
  }
  RETURN_IF_ERROR(failure_);
  entries_.push_back(std::move(entry));
  changed_.SignalAll();
  return ++added_;
}

absl::Status EventQueue::AwaitDone(uint64_t entries) {
  MutexLock lock(&mutex_);
  while (failure_.ok() && done_ < entries) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
  return failure_;
}

absl::Status EventQueue::Finish() {
  End(/*at_once=*/false);
  MutexLock lock(&mutex_);
  return failure_;
}

void EventQueue::Stop() { End(/*at_once=*/true); }

void EventQueue::End(bool at_once) {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    stopped_ = stopped_ || at_once;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void EventQueue::Work() {
  for (;;) {
    Entry entry;
    {
      MutexLock lock(&mutex_);
      while (entries_.empty() && !ending_) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
      if (entries_.empty() || stopped_) return;
      entry = std::move(entries_.front());
    }
    absl::Status status = entry.event->Wait();
    if (status.ok()) status = entry.action();
    if (!status.ok()) status = WithContext(status, entry.where());
    // What it holds is free when it counts as done; after a failure the device may still write
    // there.
    if (status.ok()) entry = Entry();
    {
      MutexLock lock(&mutex_);
      if (status.ok()) {
        entries_.pop_front();
        ++done_;
      } else {
        entries_.front() = std::move(entry);
        failure_ = status;
      }
      changed_.SignalAll();
    }
    if (!status.ok()) {
      on_failure_(status);
      return;
    }
  }
}

}  // namespace sangam
