#ifndef SANGAM_COMMON_DATA_OPEN_BENEATH_H_
#define SANGAM_COMMON_DATA_OPEN_BENEATH_H_

#include <string>

namespace sangam {

// Opens a file for reading, by a path in which no part is a symbolic link: the path of a file that
// was found inside a folder (DataRoot) leads there when it is opened too, whatever became of the
// folders on the way since then. Opening a FIFO does not wait. Returns a descriptor, or -1 with
// `errno`: ELOOP when a part is a link now.
int OpenWithoutLinks(const std::string& path);

namespace open_beneath_internal {

// The same for kernels, and sandboxes, without openat2(2).
int OpenStepByStep(const std::string& path);

}  // namespace open_beneath_internal
}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_OPEN_BENEATH_H_
