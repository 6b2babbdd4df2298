#include "common/rpc/seen_hosts.h"

#include <string>

#include "absl/time/time.h"

namespace sangam {

bool SeenHosts::Take(const std::string& host, absl::Duration now) {
  while (!order_.empty() && now - order_.front().first >= period_) {
    hosts_.erase(order_.front().second);
    order_.pop_front();
  }
  if (!hosts_.insert(host).second) return false;
  order_.emplace_back(now, host);
  if (order_.size() > most_) {
    hosts_.erase(order_.front().second);
    order_.pop_front();
  }
  return true;
}

}  // namespace sangam
