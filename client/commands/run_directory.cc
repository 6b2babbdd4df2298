#include "client/commands/run_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/files.h"
#include "client/json_text.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr size_t kMaxPendingBytes = size_t{64} << 10;

bool Exists(const std::string& path) {
  struct stat facts {};
  return lstat(path.c_str(), &facts) == 0;
}

// Names in a directory, without "." and ".."; none when it cannot be read.
std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  DIR* const directory = opendir(path.c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(directory);
  return names;
}

// Removes what daemons leave in a directory of logs, and the directory if nothing else is in it.
void RemoveLogsIn(const std::string& path) {
  for (const std::string& name : NamesIn(path)) {
    if (absl::EndsWith(name, ".log") || absl::EndsWith(name, ".ready")) {
      unlink(absl::StrCat(path, "/", name).c_str());
    }
  }
  rmdir(path.c_str());
}

absl::Status RemoveEarlierRun(const std::string& path, bool overwrite) {
  const std::vector<std::string> files = {"model.safetensors", "metrics.jsonl", "job.json"};
  for (const std::string& name : files) {
    const std::string file = absl::StrCat(path, "/", name);
    if (!Exists(file)) continue;
    if (!overwrite) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, " holds an earlier run (", name,
                       "); choose another --out, or replace it with --overwrite"));
    }
    if (unlink(file.c_str()) != 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot remove ", file));
    }
  }
  // Logs alone are left by a run that failed early; they are no result.
  RemoveLogsIn(absl::StrCat(path, "/logs"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunDirectory>> RunDirectory::Create(const std::string& path,
                                                                   bool overwrite) {
  RETURN_IF_ERROR(MakeDirectories(path));
  RETURN_IF_ERROR(RemoveEarlierRun(path, overwrite));
  RETURN_IF_ERROR(MakeDirectories(absl::StrCat(path, "/logs")));
  const std::string metrics = absl::StrCat(path, "/metrics.jsonl");
  const int fd = open(metrics.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", metrics));
  return absl::WrapUnique(new RunDirectory(path, fd));
}

RunDirectory::~RunDirectory() { close(metrics_fd_); }

absl::Status RunDirectory::AddMetrics(const v1::JobEvent& event) {
  const std::string line = MetricsLine(event);
  if (!line.empty()) absl::StrAppend(&pending_, line, "\n");
  return pending_.size() < kMaxPendingBytes ? absl::OkStatus() : Flush();
}

absl::Status RunDirectory::Flush() {
  while (!pending_.empty()) {
    const ssize_t count = write(metrics_fd_, pending_.data(), pending_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_, "/metrics.jsonl"));
    }
    pending_.erase(0, static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status RunDirectory::WriteJob(const v1::Job& job) {
  ASSIGN_OR_RETURN(const std::string json, ToJsonIndented(job));
  return WriteFileAtomically(absl::StrCat(path_, "/job.json"), absl::StrCat(json, "\n"));
}

void RunDirectory::RemoveLogs() { RemoveLogsIn(logs_path()); }

}  // namespace sangam
