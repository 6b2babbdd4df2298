#ifndef SANGAM_SERVER_RUNTIME_STALL_WATCH_H_
#define SANGAM_SERVER_RUNTIME_STALL_WATCH_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/time/time.h"

namespace sangam {

// Sees which running jobs make no progress. Not thread-safe; the caller's clock.
class StallWatch {
 public:
  struct Sighting {
    uint64_t job = 0;
    uint64_t generation = 0;
    uint64_t steps_done = 0;
  };
  struct Stall {
    uint64_t job = 0;
    absl::Duration since;  // without a step for so long
    bool news = false;     // it was not stalled at the last look
  };

  // `limit`: how long a step may take.
  explicit StallWatch(absl::Duration limit) : limit_(limit) {}

  // `running`: all jobs that run. Returns those that are stalled now, ascending.
  std::vector<Stall> Look(const std::vector<Sighting>& running, absl::Duration now);

 private:
  struct Seen {
    Sighting last;
    absl::Duration changed;
    bool stalled = false;
  };

  const absl::Duration limit_;
  std::map<uint64_t, Seen> seen_;  // by job
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_STALL_WATCH_H_
