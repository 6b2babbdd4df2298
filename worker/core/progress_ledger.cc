#include "worker/core/progress_ledger.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "proto/cluster_service.pb.h"

namespace sangam {

std::optional<v1::StepReport> ProgressLedger::AddShare(uint64_t step, uint32_t share,
                                                       double loss_sum, uint64_t samples) {
  SANGAM_CHECK(worker_shares_.Contains({share, share + 1}));
  Step& entry = steps_[step];
  v1::StepReport& report = entry.report;
  if (entry.shares_done == 0) {
    report.set_step(step);
    report.set_first_share(worker_shares_.begin);
    report.mutable_loss_sum()->Resize(static_cast<int>(worker_shares_.size()), 0);
    report.mutable_samples()->Resize(static_cast<int>(worker_shares_.size()), 0);
  }
  const int index = static_cast<int>(share - worker_shares_.begin);
  report.set_loss_sum(index, loss_sum);
  report.set_samples(index, samples);
  if (++entry.shares_done < worker_shares_.size()) return std::nullopt;
  v1::StepReport done = std::move(report);
  steps_.erase(step);
  return done;
}

std::optional<v1::EvaluationReport> ProgressLedger::AddScores(
    uint64_t step, const std::vector<v1::EvaluationChunk>& chunks) {
  Evaluation& entry = evaluations_[step];
  for (const v1::EvaluationChunk& chunk : chunks) entry.chunks[chunk.chunk()] = chunk;
  if (++entry.lanes_done < lanes_) return std::nullopt;
  v1::EvaluationReport report;
  report.set_step(step);
  report.set_chunks_total(evaluation_chunks_);
  for (auto& [number, chunk] : entry.chunks) *report.add_chunk() = std::move(chunk);
  evaluations_.erase(step);
  return report;
}

}  // namespace sangam
