#include "common/rpc/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

absl::Status Fill(int fd, absl::string_view content, int changes) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written >= 0) {
      content.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return absl::ErrnoToStatus(errno, "file in memory");
    }
  }
  // Readers that compare seconds see every change.
  const timespec times[2] = {{changes, 0}, {changes, 0}};
  if (futimens(fd, times) != 0) return absl::ErrnoToStatus(errno, "file in memory");
  return absl::OkStatus();
}

absl::StatusOr<int> MakeFile(absl::string_view content, int changes) {
  const int fd = memfd_create("sangam", MFD_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "file in memory");
  if (const absl::Status status = Fill(fd, content, changes); !status.ok()) {
    close(fd);
    return status;
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryFile>> MemoryFile::Create(absl::string_view content) {
  ASSIGN_OR_RETURN(const int fd, MakeFile(content, 1));
  return absl::WrapUnique(new MemoryFile(fd, absl::StrCat("/proc/self/fd/", fd)));
}

MemoryFile::~MemoryFile() { close(fd_); }

absl::Status MemoryFile::Replace(absl::string_view content) {
  ASSIGN_OR_RETURN(const int fd, MakeFile(content, changes_ + 1));
  const bool replaced = dup3(fd, fd_, O_CLOEXEC) >= 0;
  const int error = errno;
  close(fd);
  if (!replaced) return absl::ErrnoToStatus(error, "file in memory");
  ++changes_;
  return absl::OkStatus();
}

}  // namespace sangam
