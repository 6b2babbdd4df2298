#ifndef SANGAM_COMMON_PLAN_PARTITION_H_
#define SANGAM_COMMON_PLAN_PARTITION_H_

#include <cstdint>
#include <vector>

namespace sangam {

// Which server holds each page: value [s][p] is the server of page p of segment s.
//
// Largest page first, each to the server with the least bytes so far (Graham 1969, LPT); ties go to
// the lower segment, page and server, so the result follows from the arguments alone. The servers'
// loads differ by at most one page; when a server has ten full pages' worth on average, the fullest
// is at most 10 % above the mean.
// REQUIRES: servers >= 1, page_elements >= 1.
std::vector<std::vector<uint32_t>> PlacePages(const std::vector<uint64_t>& segment_elements,
                                              uint64_t page_elements, uint32_t servers);

}  // namespace sangam

#endif  // SANGAM_COMMON_PLAN_PARTITION_H_
