#ifndef SANGAM_WORKER_RUNTIME_RUN_REPORTER_H_
#define SANGAM_WORKER_RUNTIME_RUN_REPORTER_H_

#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "proto/cluster_service.pb.h"
#include "worker/core/progress_ledger.h"
#include "worker/runtime/report_sink.h"

namespace sangam {

// Turns what lanes say into reports: a step is reported when the worker's last share of it is done,
// everything else when the last lane has spoken. Thread-safe.
class RunReporter {
 public:
  // `sink` must outlive the reporter.
  RunReporter(uint64_t job, uint64_t generation, ProgressLedger ledger, ReportSink* sink)
      : job_(job), generation_(generation), sink_(sink), ledger_(std::move(ledger)) {}

  void AddShare(uint64_t step, uint32_t share, double loss_sum, uint64_t samples);
  void AddScores(uint64_t step, const std::vector<v1::EvaluationChunk>& chunks);
  void AddTrace(uint64_t step, std::vector<v1::TraceEvent> events);
  void AddTimes(const std::vector<v1::BlockTime>& times);

 private:
  const uint64_t job_;
  const uint64_t generation_;
  ReportSink* const sink_;
  // Held while the sink is called, which never blocks: reports must leave in the order of the
  // steps.
  Mutex mutex_;
  ProgressLedger ledger_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_RUN_REPORTER_H_
