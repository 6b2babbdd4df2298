#include "server/runtime/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/metrics/counters.h"

namespace sangam {
namespace {

absl::Status Failed(absl::string_view what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

int OpenRetrying(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// Seen from outside while it waits: a disk that hangs says nothing.
int SyncRetrying(int fd) {
  std::atomic<uint64_t>& since = ProcessCounters().disk_sync_since_us;
  since.store(static_cast<uint64_t>(absl::ToInt64Microseconds(Clock::Real().Steady())));
  int result = -1;
  do {
    result = fsync(fd);
  } while (result != 0 && errno == EINTR);
  since.store(0);
  return result;
}

}  // namespace

Disk::File::~File() { close(fd_); }

Disk& Disk::Real() {
  static Disk* const disk = new Disk();
  return *disk;
}

absl::Status Disk::MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  errno = error.value();
  return Failed("make the folder", path);
}

absl::StatusOr<std::unique_ptr<Disk::File>> Disk::Create(const std::string& path) {
  const int fd = OpenRetrying(path, O_RDWR | O_CREAT | O_TRUNC);
  if (fd < 0) return Failed("write", path);
  return std::make_unique<File>(path, fd);
}

absl::Status Disk::Write(const File& file, uint64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed("write", file.path());
    offset += static_cast<uint64_t>(count);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status Disk::Sync(const File& file) {
  if (SyncRetrying(file.fd()) != 0) return Failed("write", file.path());
  return absl::OkStatus();
}

absl::Status Disk::SyncFolder(const std::string& path) {
  const int fd = OpenRetrying(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return Failed("open", path);
  // Some file systems cannot flush a folder; there is nothing better to be done there.
  const bool good = SyncRetrying(fd) == 0 || errno == EINVAL || errno == ENOTSUP;
  const absl::Status status = good ? absl::OkStatus() : Failed("write the folder", path);
  close(fd);
  return status;
}

absl::Status Disk::Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) {
    return Failed("rename", absl::StrCat(from, " to ", to));
  }
  return absl::OkStatus();
}

absl::Status Disk::Exchange(const std::string& one, const std::string& other) {
  if (renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) {
    return absl::UnimplementedError(absl::StrCat("the file system cannot exchange ", one));
  }
  return Failed("exchange", absl::StrCat(one, " and ", other));
}

absl::StatusOr<uint64_t> Disk::FreeBytes(const std::string& path) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path, error);
  if (!error) return space.available;
  errno = error.value();
  return Failed("look at", path);
}

absl::Status Disk::RemoveFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return absl::OkStatus();
  errno = error.value();
  return Failed("remove", path);
}

absl::Status ReadExactly(const Disk::File& file, uint64_t offset, size_t count, char* to) {
  while (count > 0) {
    const ssize_t some = pread(file.fd(), to, count, static_cast<off_t>(offset));
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return Failed("read", file.path());
    if (some == 0) {
      return absl::DataLossError(absl::StrCat(file.path(), ", offset ", offset,
                                              ": found the end of the file, expected ", count,
                                              " more bytes"));
    }
    offset += static_cast<uint64_t>(some);
    to += some;
    count -= static_cast<size_t>(some);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Disk::File>> OpenToRead(const std::string& path) {
  const int fd = OpenRetrying(path, O_RDONLY);
  if (fd < 0) return Failed("open", path);
  return std::make_unique<Disk::File>(path, fd);
}

absl::StatusOr<uint64_t> SizeOf(const Disk::File& file) {
  struct stat facts {};
  if (fstat(file.fd(), &facts) != 0) return Failed("read", file.path());
  return static_cast<uint64_t>(facts.st_size);
}

}  // namespace sangam
