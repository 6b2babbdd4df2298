#include "worker/runtime/run_reporter.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "proto/cluster_service.pb.h"

namespace sangam {

void RunReporter::AddShare(uint64_t step, uint32_t share, double loss_sum, uint64_t samples) {
  MutexLock lock(&mutex_);
  std::optional<v1::StepReport> done = ledger_.AddShare(step, share, loss_sum, samples);
  if (!done.has_value()) return;
  v1::JobReport report;
  *report.mutable_step() = *std::move(done);
  sink_->Report(job_, generation_, std::move(report));
}

void RunReporter::AddScores(uint64_t step, const std::vector<v1::EvaluationChunk>& chunks) {
  MutexLock lock(&mutex_);
  std::optional<v1::EvaluationReport> done = ledger_.AddScores(step, chunks);
  if (!done.has_value()) return;
  v1::JobReport report;
  *report.mutable_evaluation() = *std::move(done);
  sink_->Report(job_, generation_, std::move(report));
}

void RunReporter::AddTrace(uint64_t step, std::vector<v1::TraceEvent> events) {
  MutexLock lock(&mutex_);
  std::optional<v1::TraceReport> done = ledger_.AddTrace(step, std::move(events));
  if (!done.has_value()) return;
  v1::JobReport report;
  *report.mutable_trace() = *std::move(done);
  sink_->Report(job_, generation_, std::move(report));
}

void RunReporter::AddTimes(const std::vector<v1::BlockTime>& times) {
  MutexLock lock(&mutex_);
  std::optional<v1::BlockTimesReport> done = ledger_.AddTimes(times);
  if (!done.has_value()) return;
  v1::JobReport report;
  *report.mutable_block_times() = *std::move(done);
  sink_->Report(job_, generation_, std::move(report));
}

}  // namespace sangam
