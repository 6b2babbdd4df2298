#include "common/base/log_repeats.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {

bool LogRepeats::Take(int level, absl::string_view event, absl::string_view fields,
                      absl::Duration steady) {
  for (Seen& seen : seen_) {
    if (seen.until <= steady || seen.line.level != level || seen.line.event != event ||
        seen.line.fields != fields) {
      continue;
    }
    if (seen.written < options_.written) {
      ++seen.written;
      return true;
    }
    ++seen.line.times;
    return false;
  }
  if (seen_.size() >= options_.lines) Forget(0);
  Seen& added = seen_.emplace_back();
  added.line = {level, std::string(event), std::string(fields), 0};
  added.written = 1;
  added.until = steady + options_.period;
  return true;
}

void LogRepeats::Forget(size_t index) {
  Held& line = seen_[index].line;
  if (line.times > 0) held_.push_back(std::move(line));
  seen_.erase(seen_.begin() + static_cast<std::ptrdiff_t>(index));
}

std::vector<LogRepeats::Held> LogRepeats::TakeHeld(absl::Duration steady) {
  // Periods have one length: those that end first are in front.
  while (!seen_.empty() && seen_.front().until <= steady) Forget(0);
  return std::exchange(held_, {});
}

}  // namespace sangam
