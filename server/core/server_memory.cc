#include "server/core/server_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/page_map.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "server/core/partition.h"
#include "server/core/planner.h"

namespace sangam {
namespace {

ServerBytes BytesOf(const v1::Plan& plan, uint64_t bytes_per_element) {
  ServerBytes bytes;
  for (int s = 0; s < plan.server_size(); ++s) {
    bytes[plan.server(s).name()] =
        ServerElements(plan, static_cast<uint32_t>(s)) * bytes_per_element;
  }
  return bytes;
}

}  // namespace

uint64_t LargestServerBytes(const v1::JobSpec& spec, const v1::ModelLayout& layout) {
  std::vector<uint64_t> segments;
  for (const v1::SegmentLayout& segment : layout.segment()) {
    segments.push_back(segment.element_count());
  }
  const auto placement = PlacePages(segments, kPageElements, spec.resources().servers());
  std::vector<uint64_t> elements(spec.resources().servers());
  for (size_t s = 0; s < placement.size(); ++s) {
    for (size_t p = 0; p < placement[s].size(); ++p) {
      elements[placement[s][p]] += std::min(kPageElements, segments[s] - p * kPageElements);
    }
  }
  return *std::max_element(elements.begin(), elements.end()) * TrainingBytesPerElement(spec);
}

ServerBytes TrainingBytes(const v1::Plan& plan, const v1::JobSpec& spec) {
  return BytesOf(plan, TrainingBytesPerElement(spec));
}

ServerBytes KeptBytes(const v1::Plan& plan) { return BytesOf(plan, kHoldBytesPerElement); }

uint64_t TotalOf(const ServerBytes& bytes) {
  uint64_t total = 0;
  for (const auto& [server, count] : bytes) total += count;
  return total;
}

}  // namespace sangam
