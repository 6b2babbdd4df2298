#ifndef SANGAM_COMMON_DATA_NPY_HEADER_H_
#define SANGAM_COMMON_DATA_NPY_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/input_file.h"

namespace sangam {

// What the header of a NumPy array says (format versions 1.0, 2.0 and 3.0).
struct NpyHeader {
  char kind = 'f';  // 'f' binary floating point, 'i' signed, 'u' unsigned, 'b' bool
  uint32_t item_bytes = 4;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<uint64_t> shape;  // all > 0, at least one
  uint64_t items = 1;           // product of the shape
};

// Reads and checks the header of a file that has just been opened: numbers only, at least one
// dimension, and no more items than the file can hold.
// Errors: InvalidArgument  names the file, the offset, what was found and expected
//         others           as InputFile::Read
absl::StatusOr<NpyHeader> ReadNpyHeader(InputFile* file);

// The number in the `item_bytes` bytes at `item`, rounded to binary64.
double NpyItem(const NpyHeader& header, const uint8_t* item);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_NPY_HEADER_H_
