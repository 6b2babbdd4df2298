#ifndef SANGAM_SERVER_CORE_WEIGHT_HOLDS_H_
#define SANGAM_SERVER_CORE_WEIGHT_HOLDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/plan/server_memory.h"
#include "server/core/job_progress.h"

namespace sangam {

// The finished jobs whose weights servers keep, in the order in which they finished.
//
// Pure and not thread-safe.
class WeightHolds {
 public:
  struct Hold {
    uint64_t job = 0;
    ServerBytes bytes;  // an entry for each of its servers
    SkippedSteps skipped = {};
  };

  void Add(Hold hold) { holds_.push_back(std::move(hold)); }
  // Nullptr: the job's weights are not kept.
  Hold* Find(uint64_t job);
  // Nothing: likewise.
  std::optional<Hold> Remove(uint64_t job);

  // Jobs, oldest first.
  std::vector<uint64_t> On(const std::string& server) const;
  uint64_t BytesOn(const std::string& server) const;
  // REQUIRES: not empty.
  uint64_t oldest() const { return holds_.front().job; }
  size_t size() const { return holds_.size(); }

 private:
  std::deque<Hold> holds_;  // oldest first
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_WEIGHT_HOLDS_H_
