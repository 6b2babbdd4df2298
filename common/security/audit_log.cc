#include "common/security/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"

namespace sangam {
namespace {

constexpr double kRefusalsAtOnce = 100;
constexpr double kRefusalsPerSecond = 10;
// Longer texts, from strangers, are cut.
constexpr size_t kMaxTextBytes = 1024;

// A JSON string. What is not ASCII is escaped byte by byte: it need not be UTF-8.
std::string Json(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, kMaxTextBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte > 0x7e) {
      absl::StrAppendFormat(&quoted, "\\u%04x", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// O_APPEND: one write is one line, also beside another process.
bool WriteWhole(int fd, absl::string_view line) {
  while (!line.empty()) {
    const ssize_t written = write(fd, line.data(), line.size());
    if (written >= 0) {
      line.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<int> OpenToAppend(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("\"", path, "\""));
  return fd;
}

bool IsSameFile(int a, int b) {
  struct stat of_a = {};
  struct stat of_b = {};
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path,
                                                         const Clock* clock) {
  int fd = -1;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(fd, OpenToAppend(path));
  }
  return absl::WrapUnique(new AuditLog(path, fd, clock));
}

AuditLog::AuditLog(std::string path, int fd, const Clock* clock)
    : path_(std::move(path)),
      clock_(*clock),
      fd_(fd),
      allowed_(kRefusalsAtOnce),
      allowed_at_(clock->Steady()) {}

AuditLog::~AuditLog() {
  MutexLock lock(&file_mutex_);
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::string> AuditLog::Reopen() {
  if (path_.empty()) return "";
  ASSIGN_OR_RETURN(int other, OpenToAppend(path_));
  std::string done;
  {
    MutexLock lock(&file_mutex_);
    if (!IsSameFile(fd_, other)) {
      std::swap(fd_, other);
      done = absl::StrCat("\"", path_, "\" opened anew");
    }
  }
  close(other);
  return done;
}

void AuditLog::Write(const AuditEvent& event) { WriteLine(event, 0); }

void AuditLog::WriteRefusal(const AuditEvent& event) {
  uint64_t left_out;
  {
    MutexLock lock(&mutex_);
    const absl::Duration now = clock_.Steady();
    allowed_ = std::min(kRefusalsAtOnce,
                        allowed_ + absl::ToDoubleSeconds(now - allowed_at_) * kRefusalsPerSecond);
    allowed_at_ = now;
    if (allowed_ < 1) {
      ++left_out_;
      return;
    }
    allowed_ -= 1;
    left_out = std::exchange(left_out_, 0);
  }
  WriteLine(event, left_out);
}

void AuditLog::WriteLine(const AuditEvent& event, uint64_t left_out) {
  const std::string result = absl::StatusCodeToString(event.result.code());
  if (path_.empty()) {
    std::string fields = absl::StrCat(
        "who=", LogValue(event.who), " peer=", LogValue(event.peer.substr(0, kMaxTextBytes)),
        " method=", LogValue(event.method.substr(0, kMaxTextBytes)),
        " resource=", LogValue(event.resource.substr(0, kMaxTextBytes)), " result=", result);
    if (!event.result.ok()) {
      absl::StrAppend(&fields,
                      " message=", LogValue(event.result.message().substr(0, kMaxTextBytes)));
    }
    if (left_out > 0) absl::StrAppend(&fields, " left_out=", left_out);
    Log(event.result.ok() ? LogLevel::kInfo : LogLevel::kWarning, "audit", fields);
    return;
  }
  std::string line = absl::StrCat(
      "{\"time\":\"", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", clock_.Wall(), absl::UTCTimeZone()),
      "\",\"who\":", Json(event.who), ",\"peer\":", Json(event.peer),
      ",\"method\":", Json(event.method), ",\"resource\":", Json(event.resource),
      ",\"result\":", Json(result));
  if (!event.result.ok()) absl::StrAppend(&line, ",\"message\":", Json(event.result.message()));
  if (left_out > 0) absl::StrAppend(&line, ",\"left_out\":", left_out);
  absl::StrAppend(&line, "}\n");
  MutexLock lock(&file_mutex_);
  if (!WriteWhole(fd_, line)) {
    LogWarning("audit log cannot be written", "path=%s reason=%s", LogValue(path_),
               LogValue(std::strerror(errno)));
  }
}

}  // namespace sangam
