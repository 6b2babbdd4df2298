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

std::optional<v1::TraceReport> ProgressLedger::AddTrace(uint64_t step,
                                                        std::vector<v1::TraceEvent> events) {
  Trace& entry = traces_[step];
  entry.report.set_step(step);
  for (v1::TraceEvent& event : events) {
    if (entry.report.event_size() >= kMaxTraceEvents) break;
    *entry.report.add_event() = std::move(event);
  }
  if (++entry.lanes_done < lanes_) return std::nullopt;
  v1::TraceReport report = std::move(entry.report);
  traces_.erase(step);
  return report;
}

std::optional<v1::BlockTimesReport> ProgressLedger::AddTimes(
    const std::vector<v1::BlockTime>& times) {
  for (const v1::BlockTime& time : times) {
    v1::BlockTime& sum = times_[time.block()];
    sum.set_block(time.block());
    sum.set_forward_seconds(sum.forward_seconds() + time.forward_seconds());
    sum.set_backward_seconds(sum.backward_seconds() + time.backward_seconds());
    sum.set_samples(sum.samples() + time.samples());
  }
  if (++lanes_timed_ < lanes_) return std::nullopt;
  v1::BlockTimesReport report;
  for (const auto& [block, time] : times_) *report.add_block() = time;
  return report;
}

}  // namespace sangam
