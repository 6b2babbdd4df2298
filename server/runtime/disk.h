#ifndef SANGAM_SERVER_RUNTIME_DISK_H_
#define SANGAM_SERVER_RUNTIME_DISK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sangam {

// The changes of files that checkpoints are made of, one method for each, so that a test can stop
// between any two. Thread-safe. Errors: as the system says; they name the path.
class Disk {
 public:
  // An open file; closed with the object. Not thread-safe.
  class File {
   public:
    File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    const std::string& path() const { return path_; }
    int fd() const { return fd_; }

   private:
    const std::string path_;
    const int fd_;
  };

  virtual ~Disk() = default;

  // The machine's.
  static Disk& Real();

  // With its parents; one that exists is fine.
  virtual absl::Status MakeFolder(const std::string& path);
  // An empty file, in place of one that exists.
  virtual absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path);
  virtual absl::Status Write(const File& file, uint64_t offset, absl::string_view bytes);
  // What was written reaches the disk.
  virtual absl::Status Sync(const File& file);
  // The names in a folder reach the disk.
  virtual absl::Status SyncFolder(const std::string& path);
  virtual absl::Status Rename(const std::string& from, const std::string& to);
  // Two folders take each other's names, in one step.
  // Errors: Unimplemented  the file system cannot do that
  virtual absl::Status Exchange(const std::string& one, const std::string& other);
  // What there is room for.
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& path);
  // A folder with all in it; one that does not exist is fine.
  virtual absl::Status RemoveFolder(const std::string& path);
};

// Reads exactly `count` bytes from `offset` into `to`.
// Errors: DataLoss  the file ends before; names where
absl::Status ReadExactly(const Disk::File& file, uint64_t offset, size_t count, char* to);

// Errors: NotFound  there is no such file; others as the system says
absl::StatusOr<std::unique_ptr<Disk::File>> OpenToRead(const std::string& path);

absl::StatusOr<uint64_t> SizeOf(const Disk::File& file);

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_DISK_H_
