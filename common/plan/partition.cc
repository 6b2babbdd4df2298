#include "common/plan/partition.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/plan/page_map.h"

namespace sangam {

std::vector<std::vector<uint32_t>> PlacePages(const std::vector<uint64_t>& segment_elements,
                                              uint64_t page_elements, uint32_t servers) {
  SANGAM_CHECK(servers >= 1 && page_elements >= 1);
  struct Page {
    uint64_t elements;
    size_t segment;
    size_t index;
  };
  std::vector<Page> pages;
  std::vector<std::vector<uint32_t>> placement;
  for (size_t s = 0; s < segment_elements.size(); ++s) {
    const uint64_t count = NumPages(segment_elements[s], page_elements);
    placement.emplace_back(count);
    for (uint64_t p = 0; p < count; ++p) {
      pages.push_back({std::min(page_elements, segment_elements[s] - p * page_elements), s, p});
    }
  }
  // Stable: pages of one size stay in the order of segment and index.
  std::stable_sort(pages.begin(), pages.end(),
                   [](const Page& a, const Page& b) { return a.elements > b.elements; });

  using Load = std::pair<uint64_t, uint32_t>;  // elements, server
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (uint32_t server = 0; server < servers; ++server) least.push({0, server});
  for (const Page& page : pages) {
    auto [elements, server] = least.top();
    least.pop();
    placement[page.segment][page.index] = server;
    least.push({elements + page.elements, server});
  }
  return placement;
}

}  // namespace sangam
