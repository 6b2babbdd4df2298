#ifndef SANGAM_WORKER_RUNTIME_PREPARED_JOB_H_
#define SANGAM_WORKER_RUNTIME_PREPARED_JOB_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/data_root.h"
#include "common/data/job_data.h"
#include "common/plan/batch_cut.h"
#include "common/plan/span.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "worker/data/batch_source.h"
#include "worker/layers/block.h"
#include "worker/layers/loss.h"
#include "worker/runtime/device_weights.h"
#include "worker/runtime/gradient_outbox.h"
#include "worker/runtime/lane_memory.h"
#include "worker/runtime/pipeline_link.h"
#include "worker/runtime/segment_store.h"

namespace sangam {

// All that a worker sets up for one generation of a job before the first step. Built once; what the
// pointers lead to is used by the threads of the run.
struct PreparedJob {
  v1::JobSpec spec;
  v1::Plan plan;
  uint32_t worker = 0;  // index into plan.worker
  ShareSpan shares;     // the worker's
  // Without training_samples, which comes when the run begins.
  BatchCut cut;
  std::vector<bool> recompute;  // by block of the model
  BackwardMode backward_mode = BackwardMode::kWhole;
  bool graphs = true;  // as in PrepareOptions
  // ProgramInputs.group of the training program.
  uint32_t group = 1;

  // None when the worker needs no samples, or the coordinator serves them.
  JobData data;
  std::vector<std::unique_ptr<Block>> blocks;     // by block of the model; the worker's only
  std::unique_ptr<Loss> loss;                     // nullptr without the last block
  std::vector<LaneMemory> lanes;                  // empty when the worker has no shares
  std::unique_ptr<DeviceWeights> device_weights;  // nullptr where nothing has to be brought
  std::unique_ptr<SegmentStore> store;
  std::unique_ptr<GradientOutbox> outbox;
  std::unique_ptr<PipelineLink> pipeline;  // nullptr when nothing crosses from stage to stage

  // Rows that a pass goes over at once, at most.
  uint64_t MaxRows() const { return cut.MaxMicroBatchSize() * group; }
  bool wants_inputs() const;
  bool wants_labels() const;
  // What the coordinator asks of every worker that is ready.
  v1::ReadyReport Facts() const;
  // What the lanes want of a source of samples.
  BatchOptions WantedBatches() const;
};

struct PrepareOptions {
  // Borrowed; nullptr: the worker has none, and can take only jobs whose data is served.
  const DataRoot* data_root = nullptr;
  std::string backend = "cpu";
  int device = 0;  // of the backend's
  uint32_t threads = 1;
  // Whether a device gets as one piece (Backend::BeginSequence) what it is given in each step.
  bool graphs = true;
  // The host's memory that the job may use, in bytes; 0: as much as there is. On a device it may
  // use all of the device's too.
  uint64_t memory_limit = 0;
  // Makes the link to the workers of the same pipeline; asked only when there is something to send.
  PipelineLinkFactory make_pipeline_link;
  // When it becomes true, the work ends soon with Cancelled. May be nullptr.
  const std::atomic<bool>* cancelled = nullptr;
};

// Opens the data and builds model, memory and links for the worker at index `worker` of the
// assignment's plan. A worker without shares gets none of it.
// Errors: InvalidArgument    a plan or data that does not fit; names the field or file
//         ResourceExhausted  the job needs more memory than allowed, or than the device has; says
//                            how much for what
//         others             as OpenJobData, CreateBackend and the link's factory
absl::StatusOr<std::unique_ptr<PreparedJob>> PrepareJob(const v1::Assignment& assignment,
                                                        uint32_t worker,
                                                        const PrepareOptions& options);

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_PREPARED_JOB_H_
