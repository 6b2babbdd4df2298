#ifndef SANGAM_SERVER_RUNTIME_TEMPORARY_FOLDER_H_
#define SANGAM_SERVER_RUNTIME_TEMPORARY_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"

namespace sangam {

// A folder of this process alone where the machine keeps such things (TMPDIR, else /tmp). It goes
// with the object, with all that is in it.
class TemporaryFolder {
 public:
  // `prefix`: of its name. Errors: as the system says; they name the path
  static absl::StatusOr<TemporaryFolder> Create(const std::string& prefix);
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path);

  std::string path_;  // empty: moved away
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_TEMPORARY_FOLDER_H_
