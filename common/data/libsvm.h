#ifndef SANGAM_COMMON_DATA_LIBSVM_H_
#define SANGAM_COMMON_DATA_LIBSVM_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/data/input_file.h"
#include "common/data/read_options.h"
#include "common/data/table.h"

namespace sangam {

// Samples from text files with lines "label index:value ...", indices ascending, elements without
// one 0;
// '#' begins a comment, empty lines are left out. Samples have options.rules.input_elements
// elements. `zero_based`: indices count from 0, else from 1. `files`: at least one. Every message
// names file and line, what was found and expected. Errors: InvalidArgument    a faulty line; an
// index beyond the samples' elements; no sample at all
//         ResourceExhausted  more memory is needed than allowed, or than can be had
//         Cancelled          options.cancelled became true
//         others             see InputFile::Open
absl::StatusOr<Table> ReadLibsvm(const std::vector<NamedFile>& files, bool zero_based,
                                 const ReadOptions& options);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_LIBSVM_H_
