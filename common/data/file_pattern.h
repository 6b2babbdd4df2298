#ifndef SANGAM_COMMON_DATA_FILE_PATTERN_H_
#define SANGAM_COMMON_DATA_FILE_PATTERN_H_

#include <atomic>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/data/data_root.h"
#include "common/data/input_file.h"

namespace sangam {

// The files below `root` whose names match `pattern`, in the order of their names (by byte). '*',
// '?' and '[...]' match within a name between two slashes and no dot at its beginning; a folder is
// no match. A file's name is its path relative to the root.
// Errors: InvalidArgument    the pattern or a match leads out of the root; more than 65536 match
// it,
//                            or the part of it up to a slash
//         NotFound           no file matches
//         Cancelled          `cancelled` (may be nullptr) became true
//         others             as DataRoot::Resolve, also when a folder cannot be listed
absl::StatusOr<std::vector<NamedFile>> FindFiles(const DataRoot& root, absl::string_view pattern,
                                                 const std::atomic<bool>* cancelled);

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_FILE_PATTERN_H_
