#ifndef SANGAM_COMMON_TENSOR_SAFETENSORS_HEADER_H_
#define SANGAM_COMMON_TENSOR_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

// The safetensors file format (github.com/huggingface/safetensors, "Format"):
//
//   8 bytes   N, little-endian
//   N bytes   JSON object: "name": {"dtype", "shape", "data_offsets": [begin, end)}, and
//             "__metadata__": {"format": "sangam"}; padded with spaces to a multiple of 8
//   the rest  the tensors' elements, row-major and little-endian; offsets count from here, without
//             gaps
//
// Sangam writes names in byte order and nothing that differs between runs, so equal weights make
// equal files.
namespace sangam {

// A tensor of binary32 elements.
struct TensorEntry {
  std::string name;
  std::vector<uint64_t> shape;  // row-major; empty for a scalar
};

// Bytes of its elements.
// Errors: InvalidArgument  more elements than can be counted
absl::StatusOr<uint64_t> TensorBytes(const TensorEntry& tensor);

// The file's first bytes, up to the tensors' elements. `tensors` in byte order of their names.
// Errors: InvalidArgument  names empty, not ASCII, out of order or twice; "__metadata__"; more
//                          elements or names than the format can hold
absl::StatusOr<std::string> MakeSafetensorsHeader(const std::vector<TensorEntry>& tensors);

}  // namespace sangam

#endif  // SANGAM_COMMON_TENSOR_SAFETENSORS_HEADER_H_
