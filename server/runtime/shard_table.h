#ifndef SANGAM_SERVER_RUNTIME_SHARD_TABLE_H_
#define SANGAM_SERVER_RUNTIME_SHARD_TABLE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/memory_budget.h"
#include "common/base/mutex.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "server/core/parameter_page.h"
#include "server/core/shard_layout.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/update_pool.h"
#include "server/runtime/vote_link.h"

namespace sangam {

class JobShard;

struct ShardTableOptions {
  // Bytes of weights and optimizer state that all jobs together may take; 0: no limit. Gradients
  // that wait for their siblings, and copies made for late readers, come on top.
  uint64_t memory_limit = 0;
  // That make the updates which follow a decision about a whole step.
  int update_threads = 2;
  // To the server that counts a job's votes. May be empty where no job has several servers.
  VoteLinkFactory open_link;
  // May be empty where no job goes on from a checkpoint.
  CheckpointReader read_checkpoint;
  // For what workers make this server park; may be nullptr. Outlives the table and its shards.
  MemoryBudget* budget = nullptr;
  // What happens besides Reconcile: a report without the daemon's identity; on any thread. May be
  // empty.
  std::function<void(v1::ReportRequest)> report;
};

// The shards of all jobs on this server. Thread-safe.
class ShardTable {
 public:
  // `server_name`: this server's name, as plans call it.
  explicit ShardTable(std::string server_name, ShardTableOptions options = {});
  ~ShardTable();

  // Makes the table hold exactly what the coordinator assigned: lays out the pages of new jobs
  // (initial weights by address), drops what is no longer assigned, reduces jobs in phase HOLD to
  // their last weights. Returns what to report to the coordinator (READY or FAILED for each new
  // generation), without the daemon's identity. May take as long as filling all new weights does.
  // What is read from a checkpoint comes on a thread of its own, so that other jobs hear meanwhile
  // what is asked of them; its report comes by ShardTableOptions.report, which must not be empty.
  //
  // A later generation of a job takes the place of the one before, whose weights are dropped.
  //
  // A generation must be new in phase PREPARE: in another phase its weights were lost with an
  // earlier process, and the report is FAILED (RUN) or absent (HOLD).
  std::vector<v1::ReportRequest> Reconcile(const std::vector<v1::Assignment>& assignments);

  // Errors: NotFound  this server does not hold the job
  absl::StatusOr<std::shared_ptr<ParameterShard>> Find(uint64_t job) const;

  // Errors: NotFound  this server does not count the votes of such a job
  absl::StatusOr<std::shared_ptr<VoteCounter>> FindCounter(uint64_t job) const;

  // Bytes of weights and optimizer state over all jobs.
  uint64_t MemoryBytes() const;

  // What is here, for people.
  struct JobFacts {
    uint64_t job = 0;
    uint64_t generation = 0;
    uint64_t pages = 0;
    uint64_t memory_bytes = 0;
    bool held = false;  // only the last weights
  };
  std::vector<JobFacts> Jobs() const;
  // Gradients that changed nothing, of all jobs that were ever here.
  ParameterPage::Ignored ignored() const;

 private:
  struct Entry {
    uint64_t generation = 0;
    std::shared_ptr<JobShard> shard;  // null: the job could not be prepared
    bool held = false;                // phase HOLD
    bool running = false;             // phase RUN has been seen
  };
  // Reads a shard.
  struct Reading {
    uint64_t job = 0;
    std::atomic<bool> cancelled{false};  // nobody wants it any more; it ends with the next page
    std::atomic<bool> let_go{false};     // what it has read is the table's, or freed
    std::atomic<bool> done{false};       // its thread ends
  };
  struct Reader {
    std::thread thread;
    std::shared_ptr<Reading> reading;
  };

  void DropUnassigned(const std::vector<v1::Assignment>& assignments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reconcile_mutex_);
  // What to report, if anything.
  std::optional<v1::JobReport> ReconcileJob(const v1::Assignment& assignment)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reconcile_mutex_);
  // The pages of a new generation, for which there is room.
  absl::StatusOr<ShardLayout> LayOut(const v1::Assignment& assignment, bool held)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reconcile_mutex_);
  absl::StatusOr<std::shared_ptr<JobShard>> Create(const v1::Assignment& assignment,
                                                   ShardLayout layout, CheckpointReader reader);
  void CancelReaders(uint64_t job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(reconcile_mutex_);
  // Whether one that was cancelled still holds what it has read.
  bool AwaitsReaders() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(reconcile_mutex_);
  // On a thread: Create, then Prepared, then the report.
  void Read(const v1::Assignment& assignment, ShardLayout layout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reconcile_mutex_);
  // What to report of a shard that was made or not; nothing when it is wanted no more.
  std::optional<v1::JobReport> Prepared(const v1::Assignment& assignment,
                                        const absl::StatusOr<std::shared_ptr<JobShard>>& shard)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reconcile_mutex_);
  // Errors: as JobShard::Run
  absl::Status Run(const v1::Assignment& assignment, Entry entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reconcile_mutex_);
  void WantSnapshots(const v1::Assignment& assignment)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(reconcile_mutex_);
  void Hold(const v1::Assignment& assignment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(reconcile_mutex_);
  std::optional<Entry> Lookup(uint64_t job) const;
  // The shard leaves; what it counted stays.
  void Drop(const std::shared_ptr<JobShard>& shard);
  void Store(uint64_t job, Entry entry);

  const std::string server_name_;
  const ShardTableOptions options_;
  UpdatePool pool_;
  // One Reconcile at a time; held while memory is taken and filled. Before mutex_ when both are.
  Mutex reconcile_mutex_;
  std::vector<Reader> readers_ ABSL_GUARDED_BY(reconcile_mutex_);
  CondVar reader_let_go_;
  mutable Mutex mutex_;
  std::map<uint64_t, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  uint64_t reading_bytes_ ABSL_GUARDED_BY(mutex_) = 0;             // of shards that are being read
  ParameterPage::Ignored ignored_before_ ABSL_GUARDED_BY(mutex_);  // of those that are gone
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_SHARD_TABLE_H_
