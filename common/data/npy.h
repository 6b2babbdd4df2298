#ifndef SANGAM_COMMON_DATA_NPY_H_
#define SANGAM_COMMON_DATA_NPY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/data/input_file.h"
#include "common/data/read_options.h"
#include "common/data/table.h"

namespace sangam {

// Samples from two NumPy arrays (see NpyHeader), each gzipped or not: inputs [samples, ...] and
// labels [samples] or [samples, ...], in C or Fortran order.
struct NpyData {
  Table table;
  // Of one sample; {1} when the inputs have one dimension.
  std::vector<uint64_t> shape;
};

// Every message names the file and the offset, what was found and expected.
// Errors: InvalidArgument    a header that is none, or that the file contradicts; not as many
// labels
//                            as samples; a number that breaks the rules
//         DataLoss           the file is truncated, too long or damaged
//         ResourceExhausted  more memory is needed than allowed, or than can be had
//         Cancelled          options.cancelled became true
//         others             see InputFile::Open
absl::StatusOr<NpyData> ReadNpy(const NamedFile& inputs, const NamedFile& labels,
                                const ReadOptions& options);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_NPY_H_
