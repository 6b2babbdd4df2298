#ifndef SANGAM_SERVER_CORE_LOG_WRITERS_H_
#define SANGAM_SERVER_CORE_LOG_WRITERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "server/core/daemon_key.h"

namespace sangam {

// Whose lines about a job are kept: of the daemons that are or were in one of its plans. They still
// say something when they have lost the job, and nobody else can push their lines out.
//
// Pure and not thread-safe. Bounded: of a job those that were admitted first are forgotten first.
class LogWriters {
 public:
  // `max_of_job`: at least as many as a plan has; a cluster has at most 4096 daemons.
  explicit LogWriters(size_t max_of_job = 4096) : max_of_job_(max_of_job) {}

  // Again: it is the newest.
  void Admit(uint64_t job, const DaemonKey& daemon);
  bool Has(uint64_t job, const DaemonKey& daemon) const;

  void Forget(uint64_t job) { jobs_.erase(job); }
  // Forgets all jobs that are not known.
  void KeepOnly(const std::function<bool(uint64_t)>& known);
  size_t jobs() const { return jobs_.size(); }

 private:
  struct Job {
    std::map<DaemonKey, uint64_t> admitted;
    std::map<uint64_t, DaemonKey> by_age;
  };

  const size_t max_of_job_;
  uint64_t admissions_ = 0;
  std::map<uint64_t, Job> jobs_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_LOG_WRITERS_H_
