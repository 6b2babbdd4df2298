#ifndef SANGAM_COMMON_RPC_MEMORY_FILE_H_
#define SANGAM_COMMON_RPC_MEMORY_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sangam {

// A file in memory for a library that wants a path and looks at the file again and again. Only this
// process can open it. Not thread-safe, but for those who read the file.
class MemoryFile {
 public:
  // Errors: as the system says
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Create(absl::string_view content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // The same for as long as this lives.
  const std::string& path() const { return path_; }

  // Whoever opens the path sees the old content or the new one, never a mixture. The time of the
  // last change is another second each time.
  // Errors: as the system says; then the content is as before
  absl::Status Replace(absl::string_view content);

 private:
  MemoryFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  const int fd_;
  const std::string path_;
  int changes_ = 1;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_MEMORY_FILE_H_
