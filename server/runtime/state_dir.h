#ifndef SANGAM_SERVER_RUNTIME_STATE_DIR_H_
#define SANGAM_SERVER_RUNTIME_STATE_DIR_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sangam {

// The folder of what outlives a coordinator: `sangam.db` and `checkpoints/`. Locked as long as the
// object lives, by a lock of the system that ends with the process, however it ends.
class StateDir {
 public:
  // Makes the folder, parents included, when it is missing. `holder`: the name by which another
  // process that wants the folder is told who has it.
  // Errors: FailedPrecondition  another process has the folder; names it
  //         PermissionDenied    may not be read or written
  //         InvalidArgument     not a folder, or cannot be made
  static absl::StatusOr<std::unique_ptr<StateDir>> Open(const std::string& folder,
                                                        absl::string_view holder);
  ~StateDir();
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;

  const std::string& path() const { return path_; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string database() const { return path_ + "/sangam.db"; }

 private:
  StateDir(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;  // a file descriptor
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_STATE_DIR_H_
