#include "common/data/data_root.h"

#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

struct FreeDelete {
  void operator()(char* text) const { std::free(text); }
};

// Links followed; nothing and `errno` when it cannot be done.
std::unique_ptr<char, FreeDelete> RealPath(const std::string& path) {
  return std::unique_ptr<char, FreeDelete>(realpath(path.c_str(), nullptr));
}

bool LeadsUp(const std::filesystem::path& relative) {
  const std::filesystem::path normal = relative.lexically_normal();
  return !normal.empty() && *normal.begin() == "..";
}

}  // namespace

absl::Status PathError(int error, absl::string_view message) {
  const std::string text = absl::StrCat(message, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::InvalidArgumentError(text);
}

absl::StatusOr<DataRoot> DataRoot::Create(const std::string& folder) {
  const auto real = RealPath(folder);
  if (real == nullptr) return PathError(errno, absl::StrCat("data_root \"", folder, "\""));
  struct stat facts = {};
  if (stat(real.get(), &facts) != 0) {
    return PathError(errno, absl::StrCat("data_root \"", folder, "\""));
  }
  if (!S_ISDIR(facts.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_root \"", folder, "\": found a file, expected a folder"));
  }
  return DataRoot(real.get());
}

absl::Status DataRoot::CheckInside(absl::string_view relative) const {
  const std::string shown = absl::CEscape(relative);
  if (relative.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data path: found an empty one, expected a file below ", path_));
  }
  if (absl::StrContains(relative, '\0')) {
    return absl::InvalidArgumentError(
        absl::StrCat("data path \"", shown, "\": has a zero byte, expected a file below ", path_));
  }
  if (relative[0] == '/') {
    return absl::InvalidArgumentError(absl::StrCat("data path \"", shown,
                                                   "\": found an absolute path, expected one "
                                                   "relative to data_root ",
                                                   path_));
  }
  if (LeadsUp(std::string(relative))) return LeadsOut(relative);
  return absl::OkStatus();
}

absl::Status DataRoot::LeadsOut(absl::string_view relative) const {
  return absl::InvalidArgumentError(
      absl::StrCat("data path \"", absl::CEscape(relative), "\": leads out of data_root ", path_));
}

absl::StatusOr<std::string> DataRoot::Resolve(absl::string_view relative) const {
  // Before the file system is asked: whether something exists outside is nobody's business.
  RETURN_IF_ERROR(CheckInside(relative));
  const auto real = RealPath(absl::StrCat(path_, "/", relative));
  if (real == nullptr) {
    return PathError(
        errno, absl::StrCat("data path \"", absl::CEscape(relative), "\" below data_root ", path_));
  }
  const std::string prefix = path_ == "/" ? path_ : absl::StrCat(path_, "/");
  if (path_ != real.get() && !absl::StartsWith(real.get(), prefix)) {
    return LeadsOut(relative);
  }
  return std::string(real.get());
}

}  // namespace sangam
