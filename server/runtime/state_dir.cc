#include "server/runtime/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr size_t kMaxHolderBytes = 256;

absl::Status Fault(int error, const std::string& path, absl::string_view what) {
  const std::string message = absl::StrCat("\"", path, "\": ", what, ": ", std::strerror(error));
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(message);
  }
  return absl::InvalidArgumentError(message);
}

// Makes `path` and what is missing above it.
absl::Status MakeFolders(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST) {
      const int error = errno;
      struct stat status;
      // Above the folder there may be what one may not write to, as long as it is there.
      if (::stat(part.c_str(), &status) != 0) return Fault(error, part, "cannot be made");
    }
    if (end == std::string::npos) break;
  }
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return Fault(errno, path, "cannot be read");
  if (!S_ISDIR(status.st_mode)) return Fault(ENOTDIR, path, "expected a folder");
  return absl::OkStatus();
}

std::string ReadHolder(int file) {
  std::array<char, kMaxHolderBytes> text;
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  return std::string(
      absl::StripSuffix({text.data(), size > 0 ? static_cast<size_t>(size) : 0}, "\n"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDir>> StateDir::Open(const std::string& folder,
                                                         absl::string_view holder) {
  RETURN_IF_ERROR(MakeFolders(folder));
  const std::string path = absl::StrCat(folder, "/lock");
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return Fault(errno, path, "cannot be opened");
  std::unique_ptr<StateDir> dir(new StateDir(folder, file));
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Fault(errno, path, "cannot be locked");
    return absl::FailedPreconditionError(
        absl::StrCat("\"", folder, "\": locked by ", ReadHolder(file)));
  }
  const std::string text =
      absl::StrCat("pid ", ::getpid(), " (", holder.substr(0, kMaxHolderBytes - 32), ")\n");
  if (::ftruncate(file, 0) != 0 ||
      ::pwrite(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return Fault(errno, path, "cannot be written");
  }
  return dir;
}

StateDir::~StateDir() { ::close(lock_); }

}  // namespace sangam
