#ifndef SANGAM_COMMON_RPC_STALLED_CALLS_H_
#define SANGAM_COMMON_RPC_STALLED_CALLS_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/refusal_counts.h"

namespace sangam {

// The writes of synchronous streams that are under way. A client that does not read and stays
// connected would hold such a write, and with it a thread of the server, for ever. Thread-safe.
class StalledCalls {
 public:
  // `clock`, and `counts` unless it is nullptr, must outlive the object.
  StalledCalls(absl::Duration timeout, const Clock* clock, RefusalCounts* counts = nullptr)
      : timeout_(timeout), clock_(*clock), counts_(counts) {}

  // A write is under way as long as this lives.
  class Write {
   public:
    // `calls` may be nullptr; all of them must outlive it. `method` is a word for the log.
    Write(StalledCalls* calls, grpc::ServerContext* context, const char* method);
    ~Write();
    Write(const Write&) = delete;
    Write& operator=(const Write&) = delete;

   private:
    StalledCalls* const calls_;
    uint64_t number_ = 0;
  };

  // Cancels the calls whose write has taken too long. To be called again and again.
  void Check();

 private:
  struct Entry {
    grpc::ServerContext* context = nullptr;
    const char* method = "";
    absl::Duration began;
    bool cancelled = false;
  };

  const absl::Duration timeout_;
  const Clock& clock_;
  RefusalCounts* const counts_;
  Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Entry> writes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_STALLED_CALLS_H_
