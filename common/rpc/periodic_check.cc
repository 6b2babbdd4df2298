#include "common/rpc/periodic_check.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/alarm_time.h"

namespace sangam {

void PeriodicCheck::Start() {
  activities_->Begin();
  SetAlarm();
}

void PeriodicCheck::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  alarm_.Cancel();
}

void PeriodicCheck::SetAlarm() {
  MutexLock lock(&mutex_);
  if (stopped_) {
    activities_->End();
  } else {
    alarm_.Set(queue_, AlarmTimeAfter(interval_), tag_.Arm(shared_from_this()));
  }
}

void PeriodicCheck::OnAlarm(bool /*ok*/) {
  registry_->CheckAll(Clock::Real().Steady());
  SetAlarm();
}

}  // namespace sangam
