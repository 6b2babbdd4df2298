#ifndef SANGAM_COMMON_BASE_JOB_LOG_H_
#define SANGAM_COMMON_BASE_JOB_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"

namespace sangam {

// The job that a log line is about, from its first "job=7"; nothing when it names none.
std::optional<uint64_t> JobOfLine(absl::string_view line);

// Keeps the log lines that are about a job, until somebody takes them away for the coordinator.
// Bounded: while too many wait, further ones are counted and dropped. Thread-safe.
class JobLog final : public LogObserver {
 public:
  struct Options {
    size_t max_lines = 512;
    size_t max_line_bytes = 2048;  // the rest of a longer line is cut off
    const Clock* clock = &Clock::Real();
  };
  struct Line {
    absl::Time time;
    LogLevel level = LogLevel::kInfo;
    std::string text;  // ASCII
  };
  // Lines about one job, oldest first.
  struct Batch {
    uint64_t job = 0;
    std::vector<Line> lines;
  };

  explicit JobLog(Options options) : options_(options) {}

  void OnLine(LogLevel level, absl::string_view line) override;

  // The job of the oldest line with its oldest `max` lines; no lines when none wait. Where lines
  // were dropped the last one says how many.
  Batch Take(size_t max);
  bool empty() const;

 private:
  struct Waiting {
    uint64_t job = 0;
    Line line;
  };

  const Options options_;
  mutable Mutex mutex_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_JOB_LOG_H_
