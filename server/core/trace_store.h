#ifndef SANGAM_SERVER_CORE_TRACE_STORE_H_
#define SANGAM_SERVER_CORE_TRACE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/plan.pb.h"

namespace sangam {

// What the workers of the newest jobs did in the steps that were traced, and how busy they were.
//
// Pure and not thread-safe. Everything is bounded: jobs, steps and bytes by dropping the oldest.
class TraceStore {
 public:
  struct Options {
    // At least 1 each.
    size_t max_jobs = 8;
    size_t max_steps = 64;  // of a job
    // A job's trace as one message. Messages have at most 4 MiB.
    size_t max_bytes = size_t{3} * 1024 * 1024;
  };

  explicit TraceStore(Options options) : options_(options) {}

  // Begins the traces of a job anew, for one generation of it.
  // REQUIRES: CheckStages(plan) is OK.
  void Begin(absl::string_view name, const v1::Plan& plan);

  // Whether a worker's report fits its job of `steps_total` steps.
  // Errors: InvalidArgument  step, block, activity, lane or the number of events; names what was
  //                          found and expected
  static absl::Status Check(const v1::TraceReport& report, const v1::Plan& plan,
                            uint64_t steps_total);

  // Keeps what a worker of the plan did. Returns how busy the workers were when this makes the
  // newest step known of every worker that computes; a copy changes nothing.
  // REQUIRES: Check was OK. A job that has not begun, or is no longer kept, changes nothing.
  std::optional<v1::Utilization> Add(uint64_t job, uint32_t worker, const v1::TraceReport& report);

  // Everything that is kept of a job.
  // Errors: NotFound  nothing is
  absl::StatusOr<v1::JobTrace> Get(uint64_t job) const;

  void Forget(uint64_t job) { jobs_.erase(job); }

  size_t size() const { return jobs_.size(); }

 private:
  // How one worker computed in one step, in microseconds of the wall clock.
  struct Work {
    double begin = 0;
    double end = 0;
    double busy = 0;     // all lanes together
    uint32_t lanes = 0;  // lanes that computed, and those numbered before them
  };
  struct Step {
    std::map<uint32_t, v1::TraceReport> reports;  // by worker; those that fit the bounds
    std::map<uint32_t, Work> work;                // by worker that has shares
    std::set<uint32_t> reported;                  // workers, also those without shares
    size_t bytes = 0;                             // of the reports
  };
  struct Job {
    v1::JobTrace head;             // without events; an entry for each worker of the plan
    std::set<uint32_t> computing;  // workers with shares
    uint32_t lanes = 1;            // of a worker, at least
    size_t bytes = 0;              // head and events
    std::map<uint64_t, Step> steps;
    std::optional<uint64_t> newest_whole;
  };

  static Work WorkOf(const v1::TraceReport& report);
  // `lanes`: of a worker, at least.
  static v1::Utilization Summarize(uint64_t step, const std::map<uint32_t, Work>& work,
                                   uint32_t lanes);
  void Keep(uint32_t worker, const v1::TraceReport& report, Job* job, Step* step) const;
  static void DropOldest(Job* job);

  const Options options_;
  std::map<uint64_t, Job> jobs_;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_TRACE_STORE_H_
