#ifndef SANGAM_SERVER_RUNTIME_SHARD_TABLE_H_
#define SANGAM_SERVER_RUNTIME_SHARD_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

// The shards of all jobs on this server. Thread-safe.
class ShardTable {
 public:
  // `server_name`: this server's name, as plans call it.
  explicit ShardTable(std::string server_name);
  ~ShardTable();

  // Makes the table hold exactly what the coordinator assigned: lays out the pages of new jobs
  // (initial weights by address), drops what is no longer assigned, reduces jobs in phase HOLD to
  // their last weights. Returns what to report to the coordinator (READY or FAILED for each new
  // generation), without the daemon's identity.
  std::vector<v1::ReportRequest> Reconcile(const std::vector<v1::Assignment>& assignments);

  // Errors: NotFound  this server does not hold the job
  absl::StatusOr<std::shared_ptr<ParameterShard>> Find(uint64_t job) const;

  // Bytes of weights and optimizer state over all jobs.
  uint64_t MemoryBytes() const;

 private:
  struct Entry;
  const std::string server_name_;
  mutable Mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Entry>> jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_SHARD_TABLE_H_
