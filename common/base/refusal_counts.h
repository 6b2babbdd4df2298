#ifndef SANGAM_COMMON_BASE_REFUSAL_COUNTS_H_
#define SANGAM_COMMON_BASE_REFUSAL_COUNTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sangam {

// Why a daemon refused something, or broke it off.
enum class Refusal {
  kMemoryBudget,      // no room for the bytes
  kConnections,       // too many connections, or no descriptor for one more
  kSilentConnection,  // a connection that sent nothing in time
  kStalledCall,       // a call whose peer does not read
  kMissingMessage,    // a call whose first message does not come
  kMessageSize,       // a message that is too long
  kCalls,             // too many calls at once
  kQueuedJobs,        // too many jobs in the queue
  kNotTls,            // a connection that does not begin with TLS, where it must
  kCredentials,       // a call without credentials, or with such as are not valid
  kRights,            // a call that the caller's role may not make, a stream in another one's name
};
inline constexpr size_t kNumRefusals = 11;

// As it stands in metrics: lower case, words joined by '_'.
constexpr const char* RefusalName(Refusal refusal) {
  constexpr const char* kNames[kNumRefusals] = {
      "memory_budget", "connections", "silent_connection", "stalled_call", "missing_message",
      "message_size",  "calls",       "queued_jobs",       "not_tls",      "credentials",
      "rights"};
  return kNames[static_cast<size_t>(refusal)];
}

// How often, since the process began. Thread-safe.
class RefusalCounts {
 public:
  void Add(Refusal refusal) {
    counts_[static_cast<size_t>(refusal)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t Get(Refusal refusal) const {
    return counts_[static_cast<size_t>(refusal)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kNumRefusals> counts_ = {};
};

// For those who may have nobody who counts.
inline void CountRefusal(RefusalCounts* counts, Refusal refusal) {
  if (counts != nullptr) counts->Add(refusal);
}

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_REFUSAL_COUNTS_H_
