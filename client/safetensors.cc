#include "client/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/files.h"
#include "common/base/status_macros.h"
#include "common/tensor/safetensors_header.h"

namespace sangam {
namespace {

absl::Status CheckLength(const TensorView& tensor) {
  ASSIGN_OR_RETURN(const uint64_t expected, TensorBytes({tensor.name, tensor.shape}));
  if (expected == tensor.bytes.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor '", absl::CEscape(tensor.name), "': found ", tensor.bytes.size(), " bytes, expected ",
      expected, " for the shape [", absl::StrJoin(tensor.shape, ", "), "]"));
}

}  // namespace

absl::StatusOr<std::string> SafetensorsHeader(const std::vector<TensorView>& tensors) {
  std::vector<TensorEntry> entries;
  for (const TensorView& tensor : tensors) {
    RETURN_IF_ERROR(CheckLength(tensor));
    entries.push_back({tensor.name, tensor.shape});
  }
  return MakeSafetensorsHeader(entries);
}

absl::Status WriteSafetensors(std::vector<TensorView> tensors, const std::string& path) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
  ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(tensors));
  ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file->Append(header));
  for (const TensorView& tensor : tensors) RETURN_IF_ERROR(file->Append(tensor.bytes));
  return file->Commit();
}

}  // namespace sangam
