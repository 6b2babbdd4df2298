#include "common/tensor/safetensors_header.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace sangam {
namespace {

constexpr char kMetadataKey[] = "__metadata__";
constexpr size_t kAlignment = 8;
constexpr uint64_t kElementBytes = 4;
// The format's own bound on N.
constexpr size_t kMaxHeaderBytes = 100'000'000;

absl::Status BadTensor(const TensorEntry& tensor, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor '", absl::CEscape(tensor.name), "': ", why));
}

absl::Status CheckName(const TensorEntry& tensor, const TensorEntry* previous) {
  const bool ascii = std::all_of(tensor.name.begin(), tensor.name.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (tensor.name.empty() || !ascii) {
    return BadTensor(tensor, "a name consists of printable ASCII characters");
  }
  if (tensor.name == kMetadataKey) return BadTensor(tensor, "the format reserves this name");
  if (previous != nullptr && tensor.name == previous->name) {
    return BadTensor(tensor, "two tensors have this name");
  }
  if (previous != nullptr && tensor.name < previous->name) {
    return BadTensor(tensor, "the names are not in byte order");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> TensorBytes(const TensorEntry& tensor) {
  uint64_t elements = 1;
  for (const uint64_t extent : tensor.shape) {
    if (extent != 0 && elements > std::numeric_limits<uint64_t>::max() / kElementBytes / extent) {
      return BadTensor(tensor, "the shape has more elements than can be counted");
    }
    elements *= extent;
  }
  return elements * kElementBytes;
}

absl::StatusOr<std::string> MakeSafetensorsHeader(const std::vector<TensorEntry>& tensors) {
  nlohmann::ordered_json header;
  header[kMetadataKey] = {{"format", "sangam"}};
  uint64_t offset = 0;
  const TensorEntry* previous = nullptr;
  for (const TensorEntry& tensor : tensors) {
    RETURN_IF_ERROR(CheckName(tensor, previous));
    ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(tensor));
    if (bytes > std::numeric_limits<uint64_t>::max() - offset) {
      return BadTensor(tensor, "the tensors have more bytes than can be counted");
    }
    nlohmann::ordered_json entry;
    entry["dtype"] = "F32";
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, offset + bytes};
    header.emplace(tensor.name, std::move(entry));
    offset += bytes;
    previous = &tensor;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (text.size() > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the header of ", tensors.size(),
                                                   " tensors has ", text.size(),
                                                   " bytes, the format allows ", kMaxHeaderBytes));
  }
  std::string result(8, '\0');
  for (size_t i = 0; i < 8; ++i) result[i] = static_cast<char>(text.size() >> (8 * i));
  return result + text;
}

}  // namespace sangam
