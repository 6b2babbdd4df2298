#ifndef SANGAM_COMMON_DATA_DATA_ROOT_H_
#define SANGAM_COMMON_DATA_DATA_ROOT_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sangam {

// Why a path cannot be used, from errno: NotFound, PermissionDenied, or else InvalidArgument.
absl::Status PathError(int error, absl::string_view message);

// The folder that jobs may read data from. A job is another person's text: what it names must lie
// below the folder, also after symbolic links are followed. Immutable, so it may be shared.
class DataRoot {
 public:
  // Errors: NotFound         there is no such path
  //         InvalidArgument  it is not a folder
  static absl::StatusOr<DataRoot> Create(const std::string& folder);

  // The real, absolute path of the existing file or folder `relative`. Every message names the path
  // and the root.
  // Errors: InvalidArgument   empty, absolute, with a zero byte, or it leads out of the root
  //         NotFound          there is no such file
  //         PermissionDenied  a folder on the way may not be searched
  absl::StatusOr<std::string> Resolve(absl::string_view relative) const;

  // Whether `relative` stays inside as far as its text tells: the first half of Resolve, for
  // patterns. Errors: InvalidArgument  as Resolve
  absl::Status CheckInside(absl::string_view relative) const;

  // Real and absolute.
  const std::string& path() const { return path_; }

 private:
  explicit DataRoot(std::string path) : path_(std::move(path)) {}
  absl::Status LeadsOut(absl::string_view relative) const;

  std::string path_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_DATA_DATA_ROOT_H_
