#ifndef SANGAM_COMMON_DATA_READ_OPTIONS_H_
#define SANGAM_COMMON_DATA_READ_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/data/sample_rules.h"

namespace sangam {

// What every reader of a data set is told besides its files.
struct ReadOptions {
  SampleRules rules;
  // Refuses data that would need more memory.
  uint64_t max_memory_bytes = std::numeric_limits<uint64_t>::max();
  // When it becomes true, reading ends soon with Cancelled. May be nullptr.
  const std::atomic<bool>* cancelled = nullptr;

  // Cancelled when it is; `name`: of the file that is being read.
  absl::Status CheckCancelled(absl::string_view name) const {
    if (cancelled == nullptr || !cancelled->load(std::memory_order_relaxed)) {
      return absl::OkStatus();
    }
    return absl::CancelledError(absl::StrCat("reading of ", name, " was cancelled"));
  }
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_READ_OPTIONS_H_
