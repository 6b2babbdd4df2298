#ifndef SANGAM_COMMON_RPC_PERIODIC_CHECK_H_
#define SANGAM_COMMON_RPC_PERIODIC_CHECK_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/completion_tag.h"

namespace sangam {

// Lets all calls of a registry look at the clock, again and again until Stop. Shared with its
// pending alarm. Thread-safe.
class PeriodicCheck final : public std::enable_shared_from_this<PeriodicCheck> {
 public:
  // `registry`, `activities` and `queue` must outlive the last alarm: an activity is held from
  // Start until then.
  PeriodicCheck(CallRegistry* registry, ActivityCount* activities, absl::Duration interval,
                grpc::CompletionQueue* queue)
      : registry_(registry), activities_(activities), interval_(interval), queue_(queue) {}

  void Start();
  void Stop();

 private:
  void SetAlarm();
  void OnAlarm(bool ok);

  CallRegistry* const registry_;
  ActivityCount* const activities_;
  const absl::Duration interval_;
  grpc::CompletionQueue* const queue_;
  OperationTag<PeriodicCheck> tag_{&PeriodicCheck::OnAlarm};
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_PERIODIC_CHECK_H_
