#ifndef SANGAM_COMMON_RPC_CALL_REGISTRY_H_
#define SANGAM_COMMON_RPC_CALL_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"

namespace sangam {

// A call in progress, as the registry sees it. Thread-safe.
class ServedCall {
 public:
  virtual ~ServedCall() = default;

  // Ends the call with this error; does not wait.
  virtual void End(const absl::Status& error) = 0;

  // Called again and again, with the steady clock's time: the call looks whether it must end.
  virtual void Check(absl::Duration now) = 0;
};

// The calls that a service is serving. Thread-safe; calls out with no lock held.
class CallRegistry {
 public:
  // At most `max_calls` at once. `counts`: may be nullptr; must outlive the object.
  explicit CallRegistry(size_t max_calls, RefusalCounts* counts = nullptr)
      : max_calls_(max_calls), counts_(counts) {}

  // Registers a call, until Remove. When it is not OK the caller must end the call with it (and
  // Remove it all the same when it is over).
  // Errors: ResourceExhausted  more calls than allowed
  //         EndAll's           the service stops
  absl::Status Add(std::shared_ptr<ServedCall> call);
  void Remove(const ServedCall* call);

  // `call` is the stream of worker `source` of a generation of a job from now on; a stream that was
  // it before ends with ABORTED. In another generation another worker may have this index.
  // Errors: Aborted  the stream that was it before is of a newer incarnation
  absl::Status Claim(const ServedCall* call, uint64_t job, uint64_t generation, uint32_t source,
                     uint64_t incarnation);

  // Ends all calls, and those that come later, with `error`.
  void EndAll(const absl::Status& error);

  // Lets every call Check.
  void CheckAll(absl::Duration now);

 private:
  struct Claimant {
    const ServedCall* call = nullptr;
    uint64_t incarnation = 0;
  };

  const size_t max_calls_;
  RefusalCounts* const counts_;
  Mutex mutex_;
  // Shared with the calls' own operations, so that a call may be ended while it is finishing.
  std::map<const ServedCall*, std::shared_ptr<ServedCall>> calls_ ABSL_GUARDED_BY(mutex_);
  // By job, generation and worker index.
  std::map<std::tuple<uint64_t, uint64_t, uint32_t>, Claimant> claims_ ABSL_GUARDED_BY(mutex_);
  absl::Status stopped_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_CALL_REGISTRY_H_
