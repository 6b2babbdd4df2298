#ifndef SANGAM_SERVER_CORE_LOG_STORE_H_
#define SANGAM_SERVER_CORE_LOG_STORE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job_service.pb.h"

namespace sangam {

// What the daemons logged about the newest jobs.
//
// Pure and not thread-safe. Bounded: a job's lines and their bytes by dropping its oldest lines,
// jobs by dropping the lines of the job that was quiet for longest. A number is never given twice
// to lines of one job, so that who follows them can go on.
class LogStore {
 public:
  struct Options {
    // At least 1 each.
    size_t max_jobs = 128;
    size_t max_lines = 4096;  // of a job
    size_t max_bytes = size_t{1} * 1024 * 1024;
    size_t max_line_bytes = 2048;  // the rest of a longer line is cut off
  };

  struct Lines {
    std::vector<v1::LogLine> lines;
    // Where to go on: every line up to this one is among these, or of another daemon, or gone.
    uint64_t revision = 0;
  };

  explicit LogStore(Options options) : options_(options) {}

  // Lines are numbered above `revision`, which an earlier store's are not. To be called first.
  void BeginAfter(uint64_t revision) { begin_ = revision; }

  // Keeps a line; its revision is set here.
  void Add(uint64_t job, v1::LogLine line);

  // At most `max` lines above revision `after`, of one daemon ("w-1" or "worker w-1") or of
  // all when it is empty.
  Lines After(uint64_t job, uint64_t after, absl::string_view daemon, size_t max) const;

  void Forget(uint64_t job) { jobs_.erase(job); }
  size_t size() const { return jobs_.size(); }

 private:
  struct Job {
    std::deque<v1::LogLine> lines;
    size_t bytes = 0;
    uint64_t begin = 0;  // its lines are numbered above it
    uint64_t last_revision = 0;
    uint64_t last_add = 0;  // counted over all jobs
  };

  void MakeRoomForJob();

  const Options options_;
  uint64_t begin_ = 0;  // no line that is no longer kept had a larger number
  uint64_t adds_ = 0;
  std::map<uint64_t, Job> jobs_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_LOG_STORE_H_
