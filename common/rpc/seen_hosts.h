#ifndef SANGAM_COMMON_RPC_SEEN_HOSTS_H_
#define SANGAM_COMMON_RPC_SEEN_HOSTS_H_

#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace sangam {

// The hosts that have come within a period, so that each is spoken of once in it. Remembers a
// bounded number; beyond it those that came first are forgotten. Not thread-safe.
class SeenHosts {
 public:
  SeenHosts(absl::Duration period, size_t most) : period_(period), most_(most) {}

  // Whether the host is spoken of now, at `now` of a clock that never goes back.
  bool Take(const std::string& host, absl::Duration now);

 private:
  const absl::Duration period_;
  const size_t most_;
  std::deque<std::pair<absl::Duration, std::string>> order_;  // of their taking
  std::set<std::string> hosts_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_SEEN_HOSTS_H_
