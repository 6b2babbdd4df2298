#ifndef SANGAM_CLIENT_SAFETENSORS_H_
#define SANGAM_CLIENT_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sangam {

// A tensor of binary32 elements. Views: the owner of the memory must outlive it.
struct TensorView {
  std::string name;
  std::vector<uint64_t> shape;  // row-major; empty for a scalar
  absl::string_view bytes;      // elements, little-endian, 4 bytes each
};

// The file's first bytes, as common/tensor/safetensors_header.h has it.
// Errors: InvalidArgument  as there, or a length that does not fit the shape
absl::StatusOr<std::string> SafetensorsHeader(const std::vector<TensorView>& tensors);

// Writes the file atomically: it appears whole or not at all. The order of `tensors` does not
// matter. Errors: as SafetensorsHeader; as AtomicFile
absl::Status WriteSafetensors(std::vector<TensorView> tensors, const std::string& path);

}  // namespace sangam

#endif  // SANGAM_CLIENT_SAFETENSORS_H_
