#include "server/core/checkpoint_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/safetensors_header.h"
#include "proto/model.pb.h"

namespace sangam {
namespace {

constexpr uint64_t kElementBytes = sizeof(float);

// One tensor of a file, and where its offset is to be noted.
struct Entry {
  TensorEntry tensor;
  uint64_t* offset = nullptr;
};

std::vector<uint64_t> ShapeOf(const v1::ParameterLayout& parameter) {
  return {parameter.shape().begin(), parameter.shape().end()};
}

// Sorts the tensors, notes their offsets, returns header and size of the file.
absl::StatusOr<std::pair<std::string, uint64_t>> LayOutFile(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.tensor.name < b.tensor.name; });
  std::vector<TensorEntry> tensors;
  tensors.reserve(entries.size());
  for (const Entry& entry : entries) tensors.push_back(entry.tensor);
  ASSIGN_OR_RETURN(std::string header, MakeSafetensorsHeader(tensors));
  uint64_t offset = header.size();
  for (const Entry& entry : entries) {
    *entry.offset = offset;
    ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(entry.tensor));
    offset += bytes;
  }
  return std::make_pair(std::move(header), offset);
}

}  // namespace

absl::StatusOr<CheckpointLayout> CheckpointLayout::Create(
    const v1::ModelLayout& layout, const std::vector<std::string>& state_names) {
  CheckpointLayout result;
  result.num_arrays_ = 1 + static_cast<uint32_t>(state_names.size());
  std::vector<Entry> weights;
  std::vector<Entry> states;
  result.segments_.resize(static_cast<size_t>(layout.segment_size()));
  for (size_t s = 0; s < result.segments_.size(); ++s) {
    const v1::SegmentLayout& segment = layout.segment(static_cast<int>(s));
    std::vector<Parameter>& parameters = result.segments_[s];
    parameters.resize(static_cast<size_t>(segment.parameter_size()));
    uint64_t next = 0;
    for (size_t p = 0; p < parameters.size(); ++p) {
      const v1::ParameterLayout& parameter = segment.parameter(static_cast<int>(p));
      const TensorEntry tensor{parameter.name(), ShapeOf(parameter)};
      ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(tensor));
      if (parameter.offset() != next || bytes != parameter.element_count() * kElementBytes) {
        return absl::InvalidArgumentError(absl::StrCat("parameter '", parameter.name(), "': found ",
                                                       parameter.element_count(), " elements from ",
                                                       parameter.offset(), ", expected ",
                                                       bytes / kElementBytes, " from ", next));
      }
      next += parameter.element_count();
      parameters[p].begin = parameter.offset();
      parameters[p].end = next;
      parameters[p].offset.resize(result.num_arrays_);
      weights.push_back({tensor, &parameters[p].offset[0]});
      for (size_t i = 0; i < state_names.size(); ++i) {
        states.push_back({{absl::StrCat(tensor.name, ".", state_names[i]), tensor.shape},
                          &parameters[p].offset[1 + i]});
      }
    }
    if (next != segment.element_count()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "segment ", s, ": found ", segment.element_count(), " elements, expected ", next));
    }
    result.num_elements_ += next;
  }
  ASSIGN_OR_RETURN(auto weights_file, LayOutFile(std::move(weights)), "%s", kFileNames[0]);
  ASSIGN_OR_RETURN(auto states_file, LayOutFile(std::move(states)), "%s", kFileNames[1]);
  result.headers_ = {std::move(weights_file.first), std::move(states_file.first)};
  result.sizes_ = {weights_file.second, states_file.second};
  return result;
}

absl::StatusOr<std::vector<CheckpointLayout::Piece>> CheckpointLayout::Pieces(
    uint32_t segment, uint64_t first, uint64_t count) const {
  const uint64_t length =
      segment < segments_.size() && !segments_[segment].empty() ? segments_[segment].back().end : 0;
  if (count == 0 || count > length || first > length - count) {
    return absl::InvalidArgumentError(absl::StrCat("segment ", segment, ": found ", count,
                                                   " elements from ", first,
                                                   ", expected them within its ", length));
  }
  const std::vector<Parameter>& parameters = segments_[segment];
  const auto begin = std::upper_bound(
      parameters.begin(), parameters.end(), first,
      [](uint64_t value, const Parameter& parameter) { return value < parameter.end; });
  std::vector<Piece> pieces;
  for (uint32_t array = 0; array < num_arrays_; ++array) {
    for (auto p = begin; p != parameters.end() && p->begin < first + count; ++p) {
      const uint64_t from = std::max(p->begin, first);
      const uint64_t to = std::min(p->end, first + count);
      if (from >= to) continue;  // a parameter without elements
      pieces.push_back({array == 0 ? size_t{0} : size_t{1},
                        p->offset[array] + (from - p->begin) * kElementBytes, array, from - first,
                        to - from});
    }
  }
  return pieces;
}

}  // namespace sangam
