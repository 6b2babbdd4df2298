#include "server/core/weight_holds.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sangam {

WeightHolds::Hold* WeightHolds::Find(uint64_t job) {
  const auto found = std::find_if(holds_.begin(), holds_.end(),
                                  [job](const Hold& hold) { return hold.job == job; });
  return found == holds_.end() ? nullptr : &*found;
}

std::optional<WeightHolds::Hold> WeightHolds::Remove(uint64_t job) {
  const auto found = std::find_if(holds_.begin(), holds_.end(),
                                  [job](const Hold& hold) { return hold.job == job; });
  if (found == holds_.end()) return std::nullopt;
  Hold hold = std::move(*found);
  holds_.erase(found);
  return hold;
}

std::vector<uint64_t> WeightHolds::On(const std::string& server) const {
  std::vector<uint64_t> jobs;
  for (const Hold& hold : holds_) {
    if (hold.bytes.count(server) != 0) jobs.push_back(hold.job);
  }
  return jobs;
}

uint64_t WeightHolds::BytesOn(const std::string& server) const {
  uint64_t bytes = 0;
  for (const Hold& hold : holds_) {
    if (const auto found = hold.bytes.find(server); found != hold.bytes.end()) {
      bytes += found->second;
    }
  }
  return bytes;
}

}  // namespace sangam
