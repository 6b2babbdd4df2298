#include "worker/report_counts.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "proto/cluster_service.pb.h"

namespace sangam {

void ReportCounts::Report(uint64_t job, uint64_t generation, v1::JobReport report) {
  {
    MutexLock lock(&mutex_);
    if (report.has_finished() || report.has_failed()) {
      ++(report.has_finished() ? finished_ : failed_);
      jobs_.erase(job);
    } else {
      if (jobs_.size() >= kMaxJobs && jobs_.count(job) == 0) jobs_.erase(jobs_.begin());
      Job& known = jobs_[job];
      known.job = job;
      known.generation = generation;
      if (report.has_step()) {
        known.steps = std::max(known.steps, report.step().step() + 1);
        ++steps_;
      }
    }
  }
  next_.Report(job, generation, std::move(report));
}

std::vector<ReportCounts::Job> ReportCounts::Jobs() const {
  std::vector<Job> jobs;
  MutexLock lock(&mutex_);
  for (const auto& [id, job] : jobs_) jobs.push_back(job);
  return jobs;
}

uint64_t ReportCounts::steps() const {
  MutexLock lock(&mutex_);
  return steps_;
}

uint64_t ReportCounts::finished() const {
  MutexLock lock(&mutex_);
  return finished_;
}

uint64_t ReportCounts::failed() const {
  MutexLock lock(&mutex_);
  return failed_;
}

}  // namespace sangam
