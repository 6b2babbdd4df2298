#ifndef SANGAM_WORKER_RUNTIME_TRAINER_H_
#define SANGAM_WORKER_RUNTIME_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/plan.pb.h"
#include "worker/core/load_sequence.h"
#include "worker/core/step_program.h"
#include "worker/core/timeline.h"
#include "worker/data/prefetcher.h"
#include "worker/data/sampler.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/report_sink.h"
#include "worker/runtime/run_latch.h"
#include "worker/runtime/run_reporter.h"

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
  // `assignment`: in phase RUN, of the same plan. The preparation of data begins.
  // Errors: InvalidArgument    no steps, or steps_per_epoch contradicts the data
  //         ResourceExhausted  the memory cannot be had
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(PreparedJob* job,
                                                         const v1::Assignment& assignment,
                                                         const Options& options, ReportSink* sink);
  ~Trainer() = default;

  // Trains, evaluates and ends the link; returns when every thread of the run has ended. Call once.
  // Reports steps and evaluations, not the end.
  // Errors: Cancelled  stopped
  //         others     what failed first, in words that name it
  absl::Status Run(const ParameterLinkFactory& make_link);

  // Makes Run return soon. Thread-safe; may come before Run.
  void Stop();

 private:
  class Receiver;

  Trainer(PreparedJob* job, const v1::Assignment& assignment, const Options& options,
          ReportSink* sink);
  absl::Status BuildPrograms();
  // What the prefetcher prepares next for a lane.
  std::optional<SampleRun> NextRun(size_t lane);
  // Ends the run because of `reason` unless it has ended already.
  void End(const absl::Status& reason);
  absl::Status RunLanes(ParameterLink* link);

  PreparedJob* const job_;
  const Options options_;
  Timeline timeline_;
  StepProgram train_;
  StepProgram evaluate_;
  StepProgram finish_;
  RunReporter reporter_;
  RunLatch latch_;

  // Used on the prefetcher's thread only.
  struct LaneLoads {
    LoadSequence loads;
    uint64_t epoch = 0;
    std::optional<Sampler> order;  // of `epoch`
  };
  std::vector<LaneLoads> loads_;
  std::unique_ptr<Prefetcher> prefetcher_;  // last: its thread uses the above
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_TRAINER_H_
