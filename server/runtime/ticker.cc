#include "server/runtime/ticker.h"

#include <functional>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

Ticker::Ticker(absl::Duration period, std::function<void()> tick)
    : period_(period), tick_(std::move(tick)), thread_([this] { Run(); }) {}

Ticker::~Ticker() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    stop_.SignalAll();
  }
  thread_.join();
}

void Ticker::Run() {
  for (;;) {
    tick_();
    MutexLock lock(&mutex_);
    if (stopping_) return;
    // An early wake-up only makes one period shorter.
    stop_.WaitFor(&mutex_, period_);
    if (stopping_) return;
  }
}

}  // namespace sangam
