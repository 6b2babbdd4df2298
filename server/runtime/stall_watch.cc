#include "server/runtime/stall_watch.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace sangam {

std::vector<StallWatch::Stall> StallWatch::Look(const std::vector<Sighting>& running,
                                                absl::Duration now) {
  std::map<uint64_t, Seen> seen;
  for (const Sighting& sighting : running) {
    const auto before = seen_.find(sighting.job);
    const bool same = before != seen_.end() &&
                      before->second.last.generation == sighting.generation &&
                      before->second.last.steps_done == sighting.steps_done;
    seen[sighting.job] = same ? before->second : Seen{sighting, now};
  }
  seen_ = std::move(seen);
  std::vector<Stall> stalls;
  for (auto& [job, state] : seen_) {
    const absl::Duration since = now - state.changed;
    if (since < limit_) continue;
    stalls.push_back({job, since, !state.stalled});
    state.stalled = true;
  }
  return stalls;
}

}  // namespace sangam
