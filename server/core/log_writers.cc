#include "server/core/log_writers.h"

#include <cstdint>
#include <functional>
#include <iterator>

#include "server/core/daemon_key.h"

namespace sangam {

void LogWriters::Admit(uint64_t id, const DaemonKey& daemon) {
  Job& job = jobs_[id];
  uint64_t& at = job.admitted[daemon];
  if (at != 0) job.by_age.erase(at);
  at = ++admissions_;
  job.by_age.emplace(at, daemon);
  if (job.admitted.size() <= max_of_job_) return;
  job.admitted.erase(job.by_age.begin()->second);
  job.by_age.erase(job.by_age.begin());
}

bool LogWriters::Has(uint64_t job, const DaemonKey& daemon) const {
  const auto found = jobs_.find(job);
  return found != jobs_.end() && found->second.admitted.count(daemon) > 0;
}

void LogWriters::KeepOnly(const std::function<bool(uint64_t)>& known) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    job = known(job->first) ? std::next(job) : jobs_.erase(job);
  }
}

}  // namespace sangam
