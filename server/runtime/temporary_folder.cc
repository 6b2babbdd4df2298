#include "server/runtime/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace sangam {

absl::StatusOr<TemporaryFolder> TemporaryFolder::Create(const std::string& prefix) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the folder for temporary files: ", error.message()));
  }
  std::string path = absl::StrCat(parent.string(), "/", prefix, "-XXXXXX");
  // Readable by this user alone.
  if (mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, path);
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::TemporaryFolder(std::string path) : path_(std::move(path)) {}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace sangam
