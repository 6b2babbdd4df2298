#ifndef SANGAM_CLIENT_FILES_H_
#define SANGAM_CLIENT_FILES_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sangam {

// The whole of a regular file. Errors name the file:
//   NotFound, PermissionDenied, ...  as the system says
//   InvalidArgument                  a directory
//   ResourceExhausted                more than `max_bytes`
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);

// The last `max_lines` lines of a text file, of at most 64 KiB; "" when it cannot be read.
std::string TailOfFile(const std::string& path, size_t max_lines);

// Makes the directory and its parents; one that exists is fine.
// Errors: InvalidArgument  something else of that name exists; others as the system says
absl::Status MakeDirectories(const std::string& path);

// A file that appears whole or not at all: written beside its place under another name, flushed to
// the disk, then renamed over what was there. Not thread-safe.
class AtomicFile {
 public:
  // Errors: as the system says; they name `path`.
  // `mode`: permissions, less the process's umask.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path,
                                                            mode_t mode = 0666);
  // Without Commit nothing remains.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  absl::Status Append(absl::string_view bytes);
  // REQUIRES: called once, nothing appended afterwards.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd);

  const std::string path_;
  const std::string temporary_;
  int fd_;
};

// Replaces the file `path` by `bytes`, atomically.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes,
                                 mode_t mode = 0666);

// The same for a secret: nobody but its owner may ever read it.
absl::Status WritePrivateFile(const std::string& path, absl::string_view bytes);

}  // namespace sangam

#endif  // SANGAM_CLIENT_FILES_H_
