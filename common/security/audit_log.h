#ifndef SANGAM_COMMON_SECURITY_AUDIT_LOG_H_
#define SANGAM_COMMON_SECURITY_AUDIT_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace sangam {

// Something that was done or refused. Never with a secret.
struct AuditEvent {
  std::string who;       // Caller::ToString()
  std::string peer;      // "ipv4:10.0.0.1:39000"
  std::string method;    // "SubmitJob", "/sangam.v1.JobService/SubmitJob", "reload tokens"
  std::string resource;  // "job 12", "worker w0"; may be empty
  absl::Status result;
};

// Who did what, one line of JSON each: {"time","who","peer","method","resource","result"} and
// "message" of what was refused. Thread-safe.
class AuditLog {
 public:
  // Appends to `path`, readable by its owner; empty: to the ordinary log. `clock` must outlive it.
  // Errors: as the system says, with the path
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path,
                                                        const Clock* clock);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // An event that fails to be written becomes a warning in the ordinary log.
  void Write(const AuditEvent& event);

  // As Write, for what strangers can cause as often as they like, by refusals, failures and
  // connections: at most 100 at once and 10 a second in the long run; the next line says how many
  // were left out ("left_out").
  void WriteRefusal(const AuditEvent& event);

  // Opens the file anew when another one, or none, is at its path now: for those who move it away
  // to begin a new one. Returns what was done, in words; empty: nothing. Errors: as Open; then it
  // goes on writing into the old file
  absl::StatusOr<std::string> Reopen();

 private:
  // An empty path: the ordinary log.
  AuditLog(std::string path, int fd, const Clock* clock);
  void WriteLine(const AuditEvent& event, uint64_t left_out);

  const std::string path_;
  const Clock& clock_;

  Mutex file_mutex_;
  int fd_ ABSL_GUARDED_BY(file_mutex_);  // -1 without a path
  Mutex mutex_;
  double allowed_ ABSL_GUARDED_BY(mutex_);
  absl::Duration allowed_at_ ABSL_GUARDED_BY(mutex_);
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_SECURITY_AUDIT_LOG_H_
