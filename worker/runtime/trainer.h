#ifndef SANGAM_WORKER_RUNTIME_TRAINER_H_
#define SANGAM_WORKER_RUNTIME_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/data/batch_id.h"
#include "common/plan/batch_cut.h"
#include "proto/plan.pb.h"
#include "worker/core/load_sequence.h"
#include "worker/core/step_program.h"
#include "worker/core/timeline.h"
#include "worker/data/batch_source.h"
#include "worker/runtime/batch_feed.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/report_sink.h"
#include "worker/runtime/run_latch.h"
#include "worker/runtime/run_reporter.h"
#include "worker/runtime/step_gate.h"

namespace sangam {

// Runs one worker's part of one generation of a job, from the first step to the last evaluation:
// one thread for each lane, one that prepares data, and the link's.
class Trainer {
 public:
  struct Options {
    // Neither weights nor data may stay away longer.
    absl::Duration stall_limit = absl::Minutes(10);
    // How long the servers may take to end the streams when all is done.
    absl::Duration close_deadline = absl::Seconds(5);
  };

  // `job` and `sink` must outlive the trainer; `job` must have lanes and serves one trainer only.
  // `assignment`: in phase RUN, of the same plan. `make_feed`: where samples come from when the
  // coordinator serves them. The preparation of data begins.
  // Errors: InvalidArgument    no steps, or numbers that contradict the data
  //         ResourceExhausted  the memory cannot be had
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(PreparedJob* job,
                                                         const v1::Assignment& assignment,
                                                         const Options& options, ReportSink* sink,
                                                         const BatchFeedFactory& make_feed);
  ~Trainer() = default;

  // Trains, evaluates and ends the links; returns when every thread of the run has ended. Call
  // once. Reports steps and evaluations, not the end. Errors: Cancelled  stopped
  //         others     what failed first, in words that name it
  absl::Status Run(const ParameterLinkFactory& make_link);

  // Where the lanes are to stand still, as Assignment.stop_step; may come before Run.
  void SetStop(std::optional<uint64_t> step) { gate_.SetStop(step); }

  // Makes Run return soon. Thread-safe; may come before Run.
  void Stop();

 private:
  class Receiver;

  Trainer(PreparedJob* job, const v1::Assignment& assignment, const Options& options,
          ReportSink* sink);
  absl::Status BuildPrograms();
  absl::Status StartBatches(const BatchFeedFactory& make_feed);
  // What is prepared next for a lane.
  std::optional<BatchId> NextBatch(size_t lane);
  // Ends the run because of `reason` unless it has ended already.
  void End(const absl::Status& reason);
  absl::Status RunLanes(ParameterLink* link);
  void CloseLinks(bool in_order, ParameterLink* link);

  PreparedJob* const job_;
  const Options options_;
  const BatchCut cut_;
  const uint64_t test_samples_;
  const Timeline timeline_;
  StepProgram train_;
  StepProgram evaluate_;
  StepProgram finish_;
  RunReporter reporter_;
  RunLatch latch_;
  StepGate gate_;

  std::vector<LoadSequence> loads_;       // by lane; used on the source's thread only
  std::unique_ptr<BatchSource> batches_;  // last: its thread uses the above
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_TRAINER_H_
