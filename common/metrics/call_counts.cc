#include "common/metrics/call_counts.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace sangam {

void CallCounts::Add(absl::string_view method, absl::string_view code, absl::Duration took) {
  const double seconds = absl::ToDoubleSeconds(took);
  const size_t bucket = static_cast<size_t>(
      std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin());
  absl::ConsumePrefix(&method, "/");
  MutexLock lock(&mutex_);
  auto found = methods_.find(method);
  if (found == methods_.end()) {
    const absl::string_view name = methods_.size() < kMaxMethods ? method : "other";
    found = methods_.try_emplace(std::string(name)).first;
  }
  Method& counts = found->second;
  ++counts.codes[std::string(code)];
  ++counts.times[bucket];
  counts.seconds += seconds;
  ++counts.calls;
}

CallCounts& ProcessCalls() {
  // Never destroyed: calls may end while the process does.
  static CallCounts* const calls = new CallCounts;
  return *calls;
}

std::map<std::string, CallCounts::Method> CallCounts::Methods() const {
  MutexLock lock(&mutex_);
  return {methods_.begin(), methods_.end()};
}

}  // namespace sangam
