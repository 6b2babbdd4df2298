#ifndef SANGAM_COMMON_PLAN_PAGE_MAP_H_
#define SANGAM_COMMON_PLAN_PAGE_MAP_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/plan.pb.h"

namespace sangam {

// Most elements of a page: 1 MiB in fp32. A page is the unit of placement on servers and of
// transfer.
inline constexpr uint64_t kPageElements = uint64_t{256} * 1024;

// Elements of a page of a model's plan; a function of the model alone. Small models have smaller
// pages, so that a step's gradients are sent, summed and answered piece by piece while the worker
// computes the next ones; with large models that is so anyway, and fewer frames cost less.
uint64_t PageElementsOf(const v1::ModelLayout& layout);

// A range of one segment, in elements, and the server that holds it.
struct PageRange {
  uint32_t segment = 0;
  uint64_t first_element = 0;
  uint64_t element_count = 0;
  uint32_t server = 0;  // index into Plan.server
};

// Pages [begin, end) of a segment; kAllPages is all that it has.
struct PageSpan {
  uint32_t begin = 0;
  uint32_t end = 0;

  bool empty() const { return begin >= end; }
  friend bool operator==(PageSpan a, PageSpan b) { return a.begin == b.begin && a.end == b.end; }
};
inline constexpr PageSpan kAllPages = {0, std::numeric_limits<uint32_t>::max()};

// Where every page of a plan lies. Immutable, so it may be shared by threads.
class PageMap {
 public:
  // Errors: InvalidArgument  the plan names a server that it lacks, or its pages do not cover a
  //                          segment exactly
  static absl::StatusOr<PageMap> Create(const v1::Plan& plan);

  uint32_t num_segments() const { return static_cast<uint32_t>(pages_.size()); }
  // The pages of one segment, in order.
  // REQUIRES: segment < num_segments().
  const std::vector<PageRange>& pages(uint32_t segment) const { return pages_[segment]; }
  // Number of pages of all segments.
  uint64_t num_pages() const { return num_pages_; }
  uint64_t page_elements() const { return page_elements_; }

  // Index, within pages(segment), of the page that begins at `first_element`.
  // Errors: InvalidArgument  no such segment, or no page begins there; names what was found
  absl::StatusOr<uint32_t> PageAt(uint64_t segment, uint64_t first_element) const;

 private:
  uint64_t page_elements_ = kPageElements;
  uint64_t num_pages_ = 0;
  std::vector<std::vector<PageRange>> pages_;
};

// Number of pages of a segment of `element_count` elements.
inline uint64_t NumPages(uint64_t element_count, uint64_t page_elements) {
  return (element_count + page_elements - 1) / page_elements;
}

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_PAGE_MAP_H_
