#include "worker/runtime/pending_losses.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "proto/cluster_service.pb.h"
#include "worker/backend/backend.h"
#include "worker/runtime/run_reporter.h"

namespace sangam {
namespace {

// So far may a lane be ahead of its device's losses.
constexpr size_t kMostPending = 64;

}  // namespace

absl::Status PendingLosses::AddLoss(std::unique_ptr<PendingSums> sums) {
  Entry entry;
  entry.sums = std::move(sums);
  entries_.push_back(std::move(entry));
  return Bound();
}

void PendingLosses::EndShare(uint64_t step, uint32_t share, uint64_t samples) {
  Entry entry;
  entry.step = step;
  entry.index = share;
  entry.samples = samples;
  entries_.push_back(std::move(entry));
}

absl::Status PendingLosses::AddScore(std::unique_ptr<PendingSums> sums, uint32_t chunk,
                                     uint64_t samples) {
  Entry entry;
  entry.sums = std::move(sums);
  entry.is_score = true;
  entry.index = chunk;
  entry.samples = samples;
  entries_.push_back(std::move(entry));
  return Bound();
}

absl::Status PendingLosses::Bound() {
  while (entries_.size() > kMostPending) RETURN_IF_ERROR(SettleOne());
  return absl::OkStatus();
}

absl::Status PendingLosses::SettleOne() {
  const Entry entry = std::move(entries_.front());
  entries_.pop_front();
  if (entry.sums == nullptr) {
    reporter_->AddShare(entry.step, entry.index, share_loss_, entry.samples);
    share_loss_ = 0;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ClassificationSums sums, entry.sums->Get());
  if (!entry.is_score) {
    share_loss_ += sums.loss;
    return absl::OkStatus();
  }
  v1::EvaluationChunk score;
  score.set_chunk(entry.index);
  score.set_samples(entry.samples);
  score.set_correct(sums.correct);
  score.set_loss_sum(sums.loss);
  scores_.push_back(std::move(score));
  return absl::OkStatus();
}

absl::Status PendingLosses::Settle() {
  while (!entries_.empty()) RETURN_IF_ERROR(SettleOne());
  return absl::OkStatus();
}

absl::Status PendingLosses::EndEvaluation(uint64_t step) {
  RETURN_IF_ERROR(Settle());
  reporter_->AddScores(step, scores_);
  scores_.clear();
  return absl::OkStatus();
}

}  // namespace sangam
