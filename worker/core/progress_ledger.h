#ifndef SANGAM_WORKER_CORE_PROGRESS_LEDGER_H_
#define SANGAM_WORKER_CORE_PROGRESS_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/plan/span.h"
#include "proto/cluster_service.pb.h"

namespace sangam {

// Collects what the lanes of one worker have to tell of each step and each evaluation, until all of
// it is there to be reported. Pure and not thread-safe. Lanes may be one step apart.
class ProgressLedger {
 public:
  // A report of them fits into one message to the coordinator.
  static constexpr int kMaxTraceEvents = 1 << 16;

  // REQUIRES: worker_shares is not empty, lanes >= 1.
  ProgressLedger(ShareSpan worker_shares, uint32_t lanes, uint32_t evaluation_chunks)
      : worker_shares_(worker_shares), lanes_(lanes), evaluation_chunks_(evaluation_chunks) {}

  // A share of `step` is done. Returns the step's report with its last share.
  // REQUIRES: `share` is the worker's and comes once a step.
  std::optional<v1::StepReport> AddShare(uint64_t step, uint32_t share, double loss_sum,
                                         uint64_t samples);

  // A lane has scored its chunks with the weights of `step`. Returns the evaluation's report,
  // chunks in order, with the last lane.
  std::optional<v1::EvaluationReport> AddScores(uint64_t step,
                                                const std::vector<v1::EvaluationChunk>& chunks);

  // What a lane did in `step`. Returns the worker's report, lane after lane, with the last lane. It
  // has kMaxTraceEvents at most; what comes after them is lost.
  std::optional<v1::TraceReport> AddTrace(uint64_t step, std::vector<v1::TraceEvent> events);

  // A lane is through: the times of its blocks. Returns the sums over all lanes with the last one.
  std::optional<v1::BlockTimesReport> AddTimes(const std::vector<v1::BlockTime>& times);

 private:
  struct Step {
    v1::StepReport report;
    uint32_t shares_done = 0;
  };
  struct Evaluation {
    std::map<uint32_t, v1::EvaluationChunk> chunks;
    uint32_t lanes_done = 0;
  };
  struct Trace {
    v1::TraceReport report;
    uint32_t lanes_done = 0;
  };

  const ShareSpan worker_shares_;
  const uint32_t lanes_;
  const uint32_t evaluation_chunks_;  // of the whole test set
  std::map<uint64_t, Step> steps_;
  std::map<uint64_t, Evaluation> evaluations_;
  std::map<uint64_t, Trace> traces_;
  std::map<uint32_t, v1::BlockTime> times_;  // by block
  uint32_t lanes_timed_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_CORE_PROGRESS_LEDGER_H_
