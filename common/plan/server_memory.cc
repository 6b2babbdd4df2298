#include "common/plan/server_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/model/optimizer_state.h"
#include "common/plan/page_map.h"
#include "common/plan/partition.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"

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

size_t SnapshotsAtOnce(const v1::JobSpec& spec) {
  return spec.has_checkpoint() ? SnapshotsAtOnce(spec.checkpoint()) : 0;
}

size_t SnapshotsAtOnce(const v1::CheckpointSpec& spec) {
  // Of fixed steps the next one is copied while one is written; of those that the time asks for
  // there is one.
  return spec.every_steps() > 0 ? 2 : 1;
}

uint64_t ServerElements(const v1::Plan& plan, uint32_t server) {
  uint64_t elements = 0;
  for (int s = 0; s < plan.segment_pages_size(); ++s) {
    const uint64_t count = plan.layout().segment(s).element_count();
    for (int p = 0; p < plan.segment_pages(s).server_size(); ++p) {
      if (plan.segment_pages(s).server(p) != server) continue;
      const uint64_t first = static_cast<uint64_t>(p) * plan.page_elements();
      elements += std::min(plan.page_elements(), count - first);
    }
  }
  return elements;
}

uint64_t TrainingBytesPerElement(const v1::JobSpec& spec) {
  const uint64_t arrays = OptimizerStateNames(spec.optimizer()).size();
  return sizeof(float) * (2 + arrays + SnapshotsAtOnce(spec) * (1 + arrays));
}

uint64_t LargestServerBytes(const v1::JobSpec& spec, const v1::ModelLayout& layout) {
  std::vector<uint64_t> segments;
  for (const v1::SegmentLayout& segment : layout.segment()) {
    segments.push_back(segment.element_count());
  }
  const uint64_t page = PageElementsOf(layout);
  const auto placement = PlacePages(segments, page, spec.resources().servers());
  std::vector<uint64_t> elements(spec.resources().servers());
  for (size_t s = 0; s < placement.size(); ++s) {
    for (size_t p = 0; p < placement[s].size(); ++p) {
      elements[placement[s][p]] += std::min(page, segments[s] - p * page);
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
