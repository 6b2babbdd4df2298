#ifndef SANGAM_WORKER_RUNTIME_PENDING_LOSSES_H_
#define SANGAM_WORKER_RUNTIME_PENDING_LOSSES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "proto/cluster_service.pb.h"
#include "worker/backend/backend.h"
#include "worker/runtime/run_reporter.h"

namespace sangam {

// The losses of one lane, which its device may have to compute yet: they are read, and reported,
// when somebody has to wait anyhow, or when there are many. Belongs to one thread.
class PendingLosses {
 public:
  // `reporter` outlives this.
  explicit PendingLosses(RunReporter* reporter) : reporter_(reporter) {}

  // The next micro-batch of the share under way. Errors: as PendingSums::Get, of an earlier one
  absl::Status AddLoss(std::unique_ptr<PendingSums> sums);
  // The share has its last loss.
  void EndShare(uint64_t step, uint32_t share, uint64_t samples);

  // The next chunk of the evaluation under way. Errors: as AddLoss
  absl::Status AddScore(std::unique_ptr<PendingSums> sums, uint32_t chunk, uint64_t samples);

  // Waits for all of them and reports the shares that have ended. Errors: as PendingSums::Get
  absl::Status Settle();
  // The same, and reports the scores.
  absl::Status EndEvaluation(uint64_t step);

 private:
  // One micro-batch's or chunk's sums; or without them the end of a share.
  struct Entry {
    std::unique_ptr<PendingSums> sums;
    bool is_score = false;
    uint64_t step = 0;
    uint32_t index = 0;  // share or chunk
    uint64_t samples = 0;
  };

  absl::Status Bound();
  absl::Status SettleOne();

  RunReporter* const reporter_;
  std::deque<Entry> entries_;
  double share_loss_ = 0;
  std::vector<v1::EvaluationChunk> scores_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_PENDING_LOSSES_H_
