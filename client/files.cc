#include "client/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr size_t kTailBytes = size_t{64} << 10;

// Closes at the end of a scope.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

int OpenRetrying(const std::string& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// Reads at most `max_bytes`.
absl::StatusOr<std::string> ReadUpTo(int fd, size_t max_bytes, const std::string& path) {
  std::string bytes;
  std::vector<char> buffer(size_t{64} << 10);
  while (bytes.size() < max_bytes) {
    const ssize_t count =
        read(fd, buffer.data(), std::min(buffer.size(), max_bytes - bytes.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    if (count == 0) break;
    bytes.append(buffer.data(), static_cast<size_t>(count));
  }
  return bytes;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  const Fd fd(OpenRetrying(path, O_RDONLY));
  if (fd.get() < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat facts {};
  if (fstat(fd.get(), &facts) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  if (S_ISDIR(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory, expected a file"));
  }
  ASSIGN_OR_RETURN(std::string bytes, ReadUpTo(fd.get(), max_bytes + 1, path));
  if (bytes.size() > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " is longer than ", max_bytes, " bytes"));
  }
  return bytes;
}

std::string TailOfFile(const std::string& path, size_t max_lines) {
  const Fd fd(OpenRetrying(path, O_RDONLY));
  if (fd.get() < 0) return "";
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  if (size < 0) return "";
  const off_t start = std::max<off_t>(0, size - static_cast<off_t>(kTailBytes));
  if (lseek(fd.get(), start, SEEK_SET) < 0) return "";
  absl::StatusOr<std::string> bytes = ReadUpTo(fd.get(), kTailBytes, path);
  if (!bytes.ok()) return "";
  if (!bytes->empty() && bytes->back() == '\n') bytes->pop_back();
  std::vector<absl::string_view> lines = absl::StrSplit(*bytes, '\n');
  if (lines.size() > max_lines) {
    lines.erase(lines.begin(), lines.end() - static_cast<ptrdiff_t>(max_lines));
  }
  return absl::StrJoin(lines, "\n");
}

absl::Status MakeDirectories(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the name of a directory is empty");
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(path, " exists and is not a directory"));
  }
  const std::string parent = ParentOf(path);
  if (parent != path && parent != ".") RETURN_IF_ERROR(MakeDirectories(parent));
  if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the directory ", path));
  }
  return absl::OkStatus();
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path,
                                                               mode_t mode) {
  // A directory would only be noticed by the rename, after all was written.
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory, expected a file"));
  }
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  // One that is left over, or that somebody else has put there, would keep its rights, and a link
  // would lead elsewhere.
  unlink(temporary.c_str());
  const int fd = OpenRetrying(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  return absl::WrapUnique(new AtomicFile(path, temporary, fd));
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::Status AtomicFile::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fsync(fd_) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  }
  const int written = std::exchange(fd_, -1);
  if (close(written) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  }
  // The new name itself must reach the disk. Some file systems refuse to flush a directory; there
  // is nothing better to be done there.
  const Fd directory(OpenRetrying(ParentOf(path_), O_RDONLY | O_DIRECTORY));
  if (directory.get() >= 0) fsync(directory.get());
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes, mode_t mode) {
  ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file, AtomicFile::Create(path, mode));
  RETURN_IF_ERROR(file->Append(bytes));
  return file->Commit();
}

absl::Status WritePrivateFile(const std::string& path, absl::string_view bytes) {
  return WriteFileAtomically(path, bytes, 0600);
}

}  // namespace sangam
