#include "common/plan/page_map.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/plan.pb.h"

namespace sangam {

uint64_t PageElementsOf(const v1::ModelLayout& layout) {
  constexpr uint64_t kManyPages = 64;
  uint64_t elements = 0;
  for (const v1::SegmentLayout& segment : layout.segment()) elements += segment.element_count();
  return elements > kManyPages * kPageElements ? kPageElements : kPageElements / 2;
}

absl::StatusOr<PageMap> PageMap::Create(const v1::Plan& plan) {
  if (plan.page_elements() == 0) {
    return absl::InvalidArgumentError("plan.page_elements: found 0, expected at least 1");
  }
  if (plan.segment_pages_size() != plan.layout().segment_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.segment_pages: found ", plan.segment_pages_size(),
        " entries, expected one for each of ", plan.layout().segment_size(), " segments"));
  }
  PageMap map;
  map.page_elements_ = plan.page_elements();
  for (int s = 0; s < plan.segment_pages_size(); ++s) {
    const uint64_t elements = plan.layout().segment(s).element_count();
    const v1::SegmentPages& servers = plan.segment_pages(s);
    const uint64_t expected = NumPages(elements, plan.page_elements());
    if (static_cast<uint64_t>(servers.server_size()) != expected) {
      return absl::InvalidArgumentError(absl::StrCat("plan.segment_pages[", s, "]: found ",
                                                     servers.server_size(), " pages, expected ",
                                                     expected));
    }
    std::vector<PageRange> pages;
    for (int p = 0; p < servers.server_size(); ++p) {
      if (servers.server(p) >= static_cast<uint32_t>(plan.server_size())) {
        return absl::InvalidArgumentError(
            absl::StrCat("plan.segment_pages[", s, "].server[", p, "]: found ", servers.server(p),
                         ", expected less than ", plan.server_size()));
      }
      const uint64_t first = static_cast<uint64_t>(p) * plan.page_elements();
      pages.push_back({static_cast<uint32_t>(s), first,
                       std::min(plan.page_elements(), elements - first), servers.server(p)});
    }
    map.num_pages_ += pages.size();
    map.pages_.push_back(std::move(pages));
  }
  return map;
}

absl::StatusOr<uint32_t> PageMap::PageAt(uint64_t segment, uint64_t first_element) const {
  if (segment >= pages_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("segment: found ", segment, ", expected less than ", pages_.size()));
  }
  const uint64_t page = first_element / page_elements_;
  if (first_element % page_elements_ != 0 || page >= pages_[segment].size()) {
    return absl::InvalidArgumentError(absl::StrCat("first_element of segment ", segment, ": found ",
                                                   first_element, ", expected a multiple of ",
                                                   page_elements_, " below ",
                                                   pages_[segment].size() * page_elements_));
  }
  return static_cast<uint32_t>(page);
}

}  // namespace sangam
