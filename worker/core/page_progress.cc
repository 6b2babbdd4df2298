#include "worker/core/page_progress.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/plan/page_map.h"

namespace sangam {

PageProgress::PageProgress(uint64_t elements, uint64_t page_elements)
    : elements_(elements), page_elements_(page_elements) {
  for (uint64_t first = 0; first < elements; first += page_elements) {
    missing_.push_back(std::min(page_elements, elements - first));
  }
}

absl::StatusOr<PageSpan> PageProgress::Add(uint64_t first, uint64_t count) {
  if (first > elements_ || count > elements_ - first) {
    return absl::InvalidArgumentError(absl::StrCat("found elements from ", first, ", ", count,
                                                   " of them, expected some of ", elements_));
  }
  const uint64_t end = first + count;
  PageSpan complete;
  for (uint64_t at = first; at < end;) {
    const auto page = static_cast<uint32_t>(at / page_elements_);
    const uint64_t part = std::min(end, (page + uint64_t{1}) * page_elements_) - at;
    if (part > missing_[page]) {
      return absl::InvalidArgumentError(absl::StrCat("page ", page, ": found ", part,
                                                     " more elements, expected ", missing_[page]));
    }
    missing_[page] -= part;
    at += part;
    if (missing_[page] > 0) continue;
    if (complete.empty()) complete.begin = page;
    complete.end = page + 1;
  }
  return complete;
}

std::vector<PageSpan> PageProgress::Rest() {
  std::vector<PageSpan> rest;
  for (uint32_t page = 0; page < missing_.size(); ++page) {
    if (missing_[page] == 0) continue;
    missing_[page] = 0;
    if (!rest.empty() && rest.back().end == page) {
      ++rest.back().end;
    } else {
      rest.push_back({page, page + 1});
    }
  }
  return rest;
}

}  // namespace sangam
