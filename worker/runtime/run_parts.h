#ifndef SANGAM_WORKER_RUNTIME_RUN_PARTS_H_
#define SANGAM_WORKER_RUNTIME_RUN_PARTS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/plan/batch_cut.h"
#include "worker/core/step_program.h"
#include "worker/core/timeline.h"
#include "worker/data/batch_source.h"
#include "worker/runtime/host_pins.h"
#include "worker/runtime/parameter_link.h"
#include "worker/runtime/prepared_job.h"
#include "worker/runtime/run_latch.h"
#include "worker/runtime/run_reporter.h"
#include "worker/runtime/step_gate.h"

namespace sangam {

// What the lanes of one run share. Everything is borrowed and outlives them.
struct RunParts {
  PreparedJob* job = nullptr;
  BatchCut cut;
  uint64_t test_samples = 0;
  Timeline timeline;
  const StepProgram* train = nullptr;
  const StepProgram* evaluate = nullptr;
  const StepProgram* finish = nullptr;
  BatchSource* batches = nullptr;  // nullptr: the worker needs no samples
  ParameterLink* link = nullptr;
  RunReporter* reporter = nullptr;
  const RunLatch* latch = nullptr;
  StepGate* gate = nullptr;
  // How long nothing may come, of weights, of data or from a neighbour, before the lane gives up.
  absl::Duration stall_limit;

  // For lanes with a device only.
  HostPins* pins = nullptr;
  // Ends the run because a thread of a lane's has failed.
  std::function<void(const absl::Status&)> fail;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_RUN_PARTS_H_
