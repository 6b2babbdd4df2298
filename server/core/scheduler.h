#ifndef SANGAM_SERVER_CORE_SCHEDULER_H_
#define SANGAM_SERVER_CORE_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

// Which job starts next, on which daemons. Stateless: the same snapshot gives the same decision.
//
// Jobs stand in line by priority, then by age. A worker has one job at a time; servers have
// several, as many as their memory holds. A job starts with all its daemons or not at all: one that
// waits holds nothing.
//
// A job that waits is overtaken only where it cannot matter to it: a job behind it may start as
// long as the waiting one would still find its workers and its servers' memory when all jobs in
// front of it have ended. So nobody ever waits for a job that stood behind him in line and started
// later, and yet no worker idles that the waiting job has no use for. A job for which the cluster
// has too few daemons waits for daemons and not for jobs; until they come it holds back nobody. Nor
// does one whose owner has as many jobs running as one may have at once: it waits for those.
//
// The workers of a job are all of one kind: the same backend on devices of the same name, or CPUs
// with the same kernels, that in a job of a lower precision all multiply it by themselves or all do
// not. Kinds sum in different
// orders, so a mixture would have a result of its own. Of several kinds the job gets the first with
// which it can start now, in this order: those that multiply its precision by themselves, then GPUs
// before CPUs, then by the names of backend and device.
namespace sangam {

struct QueuedJob {
  uint64_t id = 0;
  std::string name;
  uint32_t workers = 1;  // how many it asks for
  uint32_t servers = 1;
  int32_t priority = 0;
  // Training state, on the server that gets most of it.
  uint64_t server_bytes = 0;
  // "cpu" or another backend's name; empty: any.
  std::string backend = {};
  // Never unspecified.
  v1::Precision precision = v1::FP32;
  // Of a job that starts again: the kind that its workers were of (WorkerKind); empty: any.
  std::string kind = {};
  // What it waits for before it may start, whatever is free ("until its checkpoint is written");
  // empty: nothing. It keeps its place in line meanwhile.
  std::string held_back = {};
  std::string owner = {};  // who has no name has no limit
};

// A job that has its daemons.
struct RunningJob {
  uint64_t id = 0;
  std::string name;
  int32_t priority = 0;
  std::vector<std::string> workers;
  std::map<std::string, uint64_t> server_bytes;  // training state, by server
  std::string owner = {};
};

// A living daemon.
struct CandidateDaemon {
  std::string name;
  uint64_t jobs_held = 0;
  // Of a server: 0 means no limit. Weights of finished jobs make room, so they do not count.
  uint64_t memory_bytes = 0;
  // Of a worker: its kind.
  std::string backend = {};
  std::string device = {};                 // "NVIDIA H200"; of a CPU its kernels, "AVX2"
  std::vector<v1::Precision> native = {};  // what it multiplies by itself, beside FP32
};

struct ClusterSnapshot {
  std::vector<QueuedJob> queued;  // in any order
  std::vector<RunningJob> running;
  std::vector<CandidateDaemon> workers;
  std::vector<CandidateDaemon> servers;
  // Jobs of one owner that run at once; 0: no limit.
  uint64_t max_running_of_one = 0;
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

// At most one of the first two.
struct Decision {
  // To be started at once; then decide again.
  std::optional<StartJob> start;
  // Cannot run on these servers, which are enough, even if nothing else did; then decide again.
  std::optional<WaitingJob> impossible;
  // When there is neither: every queued job, in line.
  std::vector<WaitingJob> waiting;
};

Decision Decide(const ClusterSnapshot& snapshot);

// Why the job cannot run on these daemons even if nothing else did, one reason for each role:
// "needs 5 workers, cluster has 4 (w-1, w-2, w-3, w-4)", "needs 2 workers of one kind, cluster has
// 1 x cuda (NVIDIA H200), 1 x cpu".
std::vector<std::string> LackingDaemons(const QueuedJob& job,
                                        const std::vector<CandidateDaemon>& workers,
                                        const std::vector<CandidateDaemon>& servers);

// What a worker of a job of this precision has in common with all the others: "cuda (NVIDIA H200)",
// "cpu (AVX2)", "cpu (AVX512, native BF16)".
std::string WorkerKind(const CandidateDaemon& worker, v1::Precision precision);

// Whether workers of kind `found` do where those of kind `wanted` are wanted. Kinds of CPUs that
// say nothing about their kernels are older than that; they do for all kernels.
bool IsSameKind(absl::string_view found, absl::string_view wanted);

// The workers that the job would get if nothing else ran, the first ones of their kind; when there
// are too few, those of the kind that has most.
std::vector<std::string> LikelyWorkers(const QueuedJob& job,
                                       const std::vector<CandidateDaemon>& workers);

// Why too few of the servers have the memory that the job needs of each; empty when enough have,
// or when there are too few anyhow.
std::string LackingMemory(const QueuedJob& job, const std::vector<CandidateDaemon>& servers);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_SCHEDULER_H_
