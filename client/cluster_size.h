#ifndef SANGAM_CLIENT_CLUSTER_SIZE_H_
#define SANGAM_CLIENT_CLUSTER_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/forecast.pb.h"
#include "proto/job.pb.h"

// How large the machines of a job must be, from its specification alone. Pure.
namespace sangam {

// What one daemon of a kind needs, in bytes; of several the one that needs most.
struct DaemonSize {
  uint32_t count = 0;
  // The job's own: for servers weights, optimizer state and copies for checkpoints; for workers as
  // in WorkerMemory, data sets that they read themselves excluded.
  uint64_t job = 0;
  // Gradients that wait at a server for their siblings, at most.
  uint64_t waiting = 0;
  // What to ask a container for: both, the process itself and a fifth as reserve.
  uint64_t memory() const;
};

struct ClusterSize {
  uint64_t parameters = 0;
  DaemonSize servers;
  DaemonSize workers;
  // How the workers would be used; the strategy that the planner takes among equal workers.
  v1::StrategyForecast strategy;
  // Of one checkpoint, and of what lies on the coordinator's disk at most: those that are kept and
  // the one that is being written. 0 without checkpoints.
  uint64_t checkpoint = 0;
  uint64_t disk = 0;
};

// For the workers and servers that the job asks for (resources), each worker with `threads` compute
// threads and memory without limit.
// Errors: InvalidArgument     the job has faults: one line "field: message" for each
//         FailedPrecondition  no strategy is possible on so many workers
absl::StatusOr<ClusterSize> SizeOf(const v1::JobSpec& spec, uint32_t threads);

// As a table with explanations.
std::string FormatClusterSize(const ClusterSize& size);

}  // namespace sangam

#endif  // SANGAM_CLIENT_CLUSTER_SIZE_H_
