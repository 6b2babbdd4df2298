#include "client/weights_assembly.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr uint64_t kElementBytes = 4;
// 64 GiB of fp32 in one segment: beyond what a client should allocate because a peer says so.
constexpr uint64_t kMaxSegmentElements = uint64_t{1} << 34;

absl::Status CheckSegment(const v1::SegmentLayout& segment) {
  uint64_t next = 0;
  for (const v1::ParameterLayout& parameter : segment.parameter()) {
    if (parameter.offset() != next) {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", parameter.name(),
                                                     "': found offset ", parameter.offset(),
                                                     ", expected ", next));
    }
    uint64_t product = 1;
    for (const uint64_t extent : parameter.shape()) {
      if (extent != 0 && product > kMaxSegmentElements / extent) {
        return absl::InvalidArgumentError(
            absl::StrCat("parameter '", parameter.name(), "': too large"));
      }
      product *= extent;
    }
    if (product != parameter.element_count()) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", parameter.name(), "': found ", parameter.element_count(),
                       " elements, expected ", product, " for its shape"));
    }
    next += product;
  }
  if (next != segment.element_count() || next > kMaxSegmentElements) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found ", segment.element_count(), " elements, expected ", next, " for its parameters"));
  }
  return absl::OkStatus();
}

absl::Status BadFrame(absl::string_view field, absl::string_view found,
                      absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("frame's ", field, ": found ", found, ", expected ", expected));
}

}  // namespace

absl::StatusOr<WeightsAssembly> WeightsAssembly::Create(uint64_t job,
                                                        const v1::ModelLayout& layout) {
  WeightsAssembly assembly(job, layout);
  for (int s = 0; s < layout.segment_size(); ++s) {
    RETURN_IF_ERROR(CheckSegment(layout.segment(s)), "layout of segment %d", s);
  }
  assembly.segments_.resize(static_cast<size_t>(layout.segment_size()));
  for (size_t s = 0; s < assembly.segments_.size(); ++s) {
    assembly.segments_[s].bytes.resize(layout.segment(static_cast<int>(s)).element_count() *
                                       kElementBytes);
  }
  return assembly;
}

absl::Status WeightsAssembly::CheckHeader(const v1::TensorFrame& frame) const {
  const v1::FrameHeader& header = frame.header();
  if (header.kind() != v1::FRAME_KIND_WEIGHTS) {
    return BadFrame("kind", absl::StrCat(static_cast<int>(header.kind())), "FRAME_KIND_WEIGHTS");
  }
  if (header.encoding() != v1::ENCODING_FP32) {
    return BadFrame("encoding", absl::StrCat(static_cast<int>(header.encoding())), "ENCODING_FP32");
  }
  if (header.job() != job_) {
    return BadFrame("job", absl::StrCat(header.job()), absl::StrCat(job_));
  }
  if (header.segment() >= segments_.size()) {
    return BadFrame("segment", absl::StrCat(header.segment()),
                    absl::StrCat("one of ", segments_.size()));
  }
  const uint64_t length = layout_.segment(static_cast<int>(header.segment())).element_count();
  if (header.element_count() == 0 || header.element_count() > length ||
      header.first_element() > length - header.element_count()) {
    return BadFrame("range",
                    absl::StrCat(header.element_count(), " elements from ", header.first_element()),
                    absl::StrCat("at least one, all within ", NameOf(header.segment()), " of ",
                                 length, " elements"));
  }
  if (frame.payload().size() != header.element_count() * kElementBytes) {
    return BadFrame("payload", absl::StrCat(frame.payload().size(), " bytes"),
                    absl::StrCat(header.element_count() * kElementBytes));
  }
  return absl::OkStatus();
}

absl::Status WeightsAssembly::CheckStep(uint64_t step, absl::string_view server) {
  if (!step_.has_value()) {
    step_ = step;
    step_server_ = std::string(server);
  }
  if (step != *step_) {
    return absl::FailedPreconditionError(
        absl::StrCat("pages of different steps: ", *step_, " from ", step_server_, ", ", step,
                     " from ", server, "; weights can be exported when the job does not train"));
  }
  return absl::OkStatus();
}

absl::Status WeightsAssembly::Add(const v1::TensorFrame& frame, absl::string_view server) {
  RETURN_IF_ERROR(CheckHeader(frame), "from %s", server);
  const v1::FrameHeader& header = frame.header();
  Segment& segment = segments_[header.segment()];
  const uint64_t begin = header.first_element();
  const uint64_t end = begin + header.element_count();
  const auto after = segment.ranges.lower_bound(begin);
  const bool meets_next = after != segment.ranges.end() && after->first < end;
  const bool meets_previous = after != segment.ranges.begin() && std::prev(after)->second > begin;
  if (meets_next || meets_previous) {
    return absl::InvalidArgumentError(absl::StrCat("from ", server, ": elements [", begin, ", ",
                                                   end, ") of ", NameOf(header.segment()),
                                                   " have come twice"));
  }
  RETURN_IF_ERROR(CheckStep(header.step(), server));
  std::memcpy(segment.bytes.data() + begin * kElementBytes, frame.payload().data(),
              frame.payload().size());
  segment.ranges.emplace_hint(after, begin, end);
  return absl::OkStatus();
}

absl::Status WeightsAssembly::CheckComplete() const {
  std::vector<std::string> missing;
  for (size_t s = 0; s < segments_.size(); ++s) {
    const uint64_t length = segments_[s].bytes.size() / kElementBytes;
    uint64_t next = 0;
    auto range = segments_[s].ranges.begin();
    while (range != segments_[s].ranges.end() && range->first == next) {
      next = range->second;
      ++range;
    }
    if (next == length) continue;
    const uint64_t until = range == segments_[s].ranges.end() ? length : range->first;
    missing.push_back(
        absl::StrCat("elements [", next, ", ", until, ") of ", NameOf(static_cast<uint32_t>(s))));
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("no server sent ", absl::StrJoin(missing, ", nor ")));
}

std::string WeightsAssembly::NameOf(uint32_t segment) const {
  const uint32_t block = layout_.segment(static_cast<int>(segment)).block();
  if (block >= static_cast<uint32_t>(layout_.block_size()))
    return absl::StrCat("segment ", segment);
  return absl::StrCat("segment ", segment, " (block '",
                      layout_.block(static_cast<int>(block)).name(), "')");
}

std::vector<TensorView> WeightsAssembly::Tensors() const {
  std::vector<TensorView> tensors;
  for (size_t s = 0; s < segments_.size(); ++s) {
    const absl::string_view bytes = segments_[s].bytes;
    for (const v1::ParameterLayout& parameter : layout_.segment(static_cast<int>(s)).parameter()) {
      TensorView tensor;
      tensor.name = parameter.name();
      tensor.shape.assign(parameter.shape().begin(), parameter.shape().end());
      tensor.bytes = bytes.substr(parameter.offset() * kElementBytes,
                                  parameter.element_count() * kElementBytes);
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

}  // namespace sangam
