#ifndef SANGAM_SERVER_CORE_SCHEDULER_H_
#define SANGAM_SERVER_CORE_SCHEDULER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Which job starts next, on which daemons. Stateless: the same snapshot gives the same decision.
//
// One job runs at a time, in the order of submission: the oldest queued job starts when every
// daemon that it asked for is there, and until then the ones behind it wait too, so that a large
// job is never overtaken for ever.
namespace sangam {

struct QueuedJob {
  uint64_t id = 0;
  std::string name;
  uint32_t workers = 1;  // how many it asks for
  uint32_t servers = 1;
};

// A living daemon that could take a job. Servers may hold the weights of finished jobs besides.
struct CandidateDaemon {
  std::string name;
  uint64_t jobs_held = 0;
};

struct ClusterSnapshot {
  std::vector<QueuedJob> queued;  // oldest first
  // The job that has the daemons now, as people know it: "job 3 (mnist)".
  std::optional<std::string> running;
  std::vector<CandidateDaemon> workers;
  std::vector<CandidateDaemon> servers;
};

struct StartJob {
  uint64_t job = 0;
  // Names, in the order of the plan.
  std::vector<std::string> workers;
  std::vector<std::string> servers;
};

struct WaitingJob {
  uint64_t job = 0;
  std::string reason;  // "waiting for 1 of 2 workers (have: w-1)"
};

struct Decision {
  // To be started at once; then decide again.
  std::optional<StartJob> start;
  // When none starts: every queued job.
  std::vector<WaitingJob> waiting;
};

Decision Decide(const ClusterSnapshot& snapshot);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_SCHEDULER_H_
