#ifndef SANGAM_WORKER_CORE_PAGE_PROGRESS_H_
#define SANGAM_WORKER_CORE_PAGE_PROGRESS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/page_map.h"

namespace sangam {

// Which pages of a segment's gradient are final, as its elements become so in ranges of any order.
// Each page is given out once.
//
// Pure and not thread-safe.
class PageProgress {
 public:
  // REQUIRES: page_elements >= 1.
  PageProgress(uint64_t elements, uint64_t page_elements);

  // Elements [first, first + count) are final. Returns the pages that thereby are; they lie side by
  // side.
  // Errors: InvalidArgument  elements that the segment does not have, or more of a page than it has
  absl::StatusOr<PageSpan> Add(uint64_t first, uint64_t count);

  // All pages that were not given out, as the whole gradient is final now.
  std::vector<PageSpan> Rest();

 private:
  uint64_t elements_;
  uint64_t page_elements_;
  std::vector<uint64_t> missing_;  // elements, by page; 0: given out
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_PAGE_PROGRESS_H_
