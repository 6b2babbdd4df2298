#ifndef SANGAM_SERVER_RUNTIME_JOB_SHARD_H_
#define SANGAM_SERVER_RUNTIME_JOB_SHARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/memory_budget.h"
#include "common/base/mutex.h"
#include "common/tensor/slices.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "server/core/parameter_page.h"
#include "server/core/shard_layout.h"
#include "server/core/snapshot_shelf.h"
#include "server/runtime/parameter_shard.h"
#include "server/runtime/shared_page.h"
#include "server/runtime/update_pool.h"
#include "server/runtime/vote_exchange.h"
#include "server/runtime/vote_link.h"

namespace sangam {

// The pages of one job on this server. Thread-safe. Shared, because streams hold it: its memory is
// freed when the table and the last stream have let go.
class JobShard final : public ParameterShard,
                       public VoteExchange::Host,
                       public std::enable_shared_from_this<JobShard> {
 public:
  // What the shards of a server share.
  struct Environment {
    // Outlives the shard; makes the updates that follow a decision.
    UpdatePool* pool = nullptr;
    // To the server that counts votes; not needed on that one.
    VoteLinkFactory open_link;
    // A report of this server, for the coordinator, without the daemon's identity; on any thread.
    std::function<void(v1::ReportRequest)> report;
    // May be empty where no job goes on from a checkpoint.
    CheckpointReader read_checkpoint;
    // For gradients that are parked; may be nullptr: they are not counted. Outlives the shard.
    MemoryBudget* budget = nullptr;
  };

  // Takes the memory that `layout` (of the same assignment) asks for and fills in the initial
  // weights, or those of the checkpoint that the job goes on from.
  // Errors: ResourceExhausted  the memory cannot be had
  //         others             as CheckpointReader
  static absl::StatusOr<std::shared_ptr<JobShard>> Create(const v1::Assignment& assignment,
                                                          ShardLayout layout,
                                                          Environment environment);

  const std::string& owner() const override { return owner_; }
  absl::Status CheckHello(const v1::FrameHeader& header, const v1::StreamHello& hello) override;
  absl::Status Subscribe(const v1::FrameHeader& header,
                         const std::shared_ptr<WeightsSink>& sink) override;
  void Unsubscribe(const WeightsSink* sink) override;
  absl::Status AddGradient(const v1::FrameHeader& header, const SlicePayload& elements) override;
  std::vector<PageWeights> ReadWeights() override;
  absl::StatusOr<std::vector<PageWeights>> ReadState(uint64_t step) override;
  void ReleaseState(uint64_t step) override;

  // All daemons of the plan are ready: updates may be made from now on.
  // Errors: InvalidArgument  the job's schedule of learning rates is not valid
  //         others           as ParameterPage::Begin
  absl::Status Run(const v1::Assignment& assignment);

  // Each page copies its state at these steps, those that it has not got to; SnapshotReport when
  // all have. In place of the steps of the last call.
  void WantSnapshots(uint64_t generation, const std::vector<uint64_t>& steps);

  // Where other servers' votes on this job are counted; null where they are not.
  std::shared_ptr<VoteCounter> counter() const;

  // VoteExchange::Host.
  std::vector<ParameterPage::Vote> Votes() const override;
  void OnDecision(std::shared_ptr<const v1::StepDecision> decision) override;
  void OnSkippedStep(uint64_t generation, uint64_t step, const std::string& why) override;
  void OnVotesFailed(uint64_t generation, const absl::Status& status) override;

  // Lets go of everything but the newest weights.
  void Reduce();

  // From now on gradients, subscriptions and hellos are refused with NOT_FOUND.
  void Drop();

  // Weights and optimizer state. Copies made for late readers are not counted.
  uint64_t memory_bytes() const { return memory_bytes_; }
  size_t num_pages() const { return held_.size(); }
  // Sum over the pages.
  ParameterPage::Ignored ignored() const;

 private:
  // What hellos are checked against.
  struct Peers {
    uint64_t generation = 0;
    uint64_t schema_hash = 0;
    struct Worker {
      std::string name;
      uint64_t incarnation = 0;
    };
    std::vector<Worker> worker;
  };

  JobShard(const v1::Assignment& assignment, ShardLayout layout, Environment environment);
  static Peers PeersOf(const v1::Plan& plan);
  absl::Status AllocatePages(const v1::Assignment& assignment);
  // By layout_.pages: the state at the step that the job begins with.
  // Errors: as Create
  absl::StatusOr<std::vector<PageState>> FirstStates(const v1::Assignment& assignment) const;
  absl::StatusOr<std::vector<PageState>> RestoredStates(const v1::Assignment& assignment) const;
  void OnSnapshot(uint64_t generation, size_t page, PageState state);
  absl::Status CheckJob(const v1::FrameHeader& header) const;
  absl::StatusOr<SharedPage*> FindPage(const v1::FrameHeader& header) const;
  void Report(uint64_t generation, v1::JobReport report) const;
  // Hands on what a page says, when it says something.
  void HandOn(const SharedPage::Vote& vote) const;
  // Calls `change` with every page on the pool, and hands on the votes; an error fails the job.
  void ChangePages(std::function<absl::StatusOr<SharedPage::Vote>(SharedPage&)> change);
  // Calls `visit` with every page that this server holds.
  template <typename Visit>
  void ForEachPage(const Visit& visit) const;

  const uint64_t job_;
  const std::string owner_;
  const ShardLayout layout_;
  const Environment environment_;
  // For the gradients that the plan makes this server park. None without a budget.
  std::unique_ptr<PlannedMemory> staging_;
  // By segment and page, as in layout_.map; none where another server holds the page. Does not
  // change after Create.
  std::vector<std::vector<std::unique_ptr<SharedPage>>> pages_;
  std::vector<SharedPage*> held_;  // those that are not none
  // None when the job takes no decisions about steps as a whole. Does not change after Create.
  std::shared_ptr<VoteExchange> votes_;
  std::atomic<uint64_t> memory_bytes_;
  std::atomic<bool> dropped_{false};

  Mutex mutex_;
  Peers peers_ ABSL_GUARDED_BY(mutex_);
  SnapshotShelf snapshots_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_JOB_SHARD_H_
