#include "worker/backend/cuda/recent_operations.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace sangam {

void RecentOperations::Add(const char* name) {
  names_[static_cast<size_t>(count_ % kKept)] = name;
  ++count_;
}

void RecentOperations::MarkDone(int64_t count) { done_ = std::max(done_, count); }

std::string RecentOperations::Pending() const {
  const int64_t first = std::max(done_, count_ - kKept);
  std::string text;
  if (first > done_) text = absl::StrCat(first - done_, " more, ");
  for (int64_t i = first; i < count_; ++i) {
    absl::StrAppend(&text, i > first ? ", " : "", names_[static_cast<size_t>(i % kKept)]);
  }
  return text;
}

}  // namespace sangam
