#ifndef SANGAM_WORKER_RUNTIME_PREPARED_JOB_H_
#define SANGAM_WORKER_RUNTIME_PREPARED_JOB_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/batch_cut.h"
#include "common/plan/span.h"
#include "proto/cluster_service.pb.h"
#include "proto/plan.pb.h"
#include "worker/backend/backend.h"
#include "worker/data/data_root.h"
#include "worker/data/prefetcher.h"
#include "worker/layers/block.h"
#include "worker/layers/loss.h"
#include "worker/runtime/gradient_outbox.h"
#include "worker/runtime/job_data.h"
#include "worker/runtime/segment_store.h"

namespace sangam {

// What one lane computes with.
struct LaneMemory {
  std::unique_ptr<Backend> backend;                 // outlives the rest
  std::vector<std::unique_ptr<BlockState>> states;  // by block
  // Gradient of the loss with respect to the model's outputs, of a largest micro-batch.
  std::unique_ptr<BackendMemory> output_gradient;
};

// All that a worker sets up for one generation of a job before the first step. Built once; what the
// pointers lead to is used by the threads of the run.
struct PreparedJob {
  v1::JobSpec spec;
  v1::Plan plan;
  uint32_t worker = 0;  // index into plan.worker
  ShareSpan shares;     // the worker's
  BatchCut cut;
  uint64_t evaluation_chunks = 0;  // of the whole test set; 0: the job never evaluates

  JobData data;
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<Loss> loss;
  std::vector<LaneMemory> lanes;  // empty when the worker has no shares
  std::unique_ptr<SegmentStore> store;
  std::unique_ptr<GradientOutbox> outbox;

  // What the coordinator asks of every worker that is ready.
  v1::ReadyReport Facts() const;
  // Of the prefetcher for this job.
  Prefetcher::Options PrefetchOptions() const;
};

struct PrepareOptions {
  const DataRoot* data_root = nullptr;  // borrowed; must not be nullptr
  std::string backend = "cpu";
  uint32_t threads = 1;
  // Memory that the job may use, in bytes; 0: as much as there is.
  uint64_t memory_limit = 0;
  // When it becomes true, the work ends soon with Cancelled. May be nullptr.
  const std::atomic<bool>* cancelled = nullptr;
};

// Opens the data and builds model and memory for the worker at index `worker` of the assignment's
// plan. A worker without shares gets none of it.
// Errors: InvalidArgument    a plan or data that does not fit; names the field or file
//         ResourceExhausted  the job needs more memory than allowed; says how much for what
//         Unimplemented      more than one stage, or a backend with memory of its own
//         others             as OpenJobData
absl::StatusOr<std::unique_ptr<PreparedJob>> PrepareJob(const v1::Assignment& assignment,
                                                        uint32_t worker,
                                                        const PrepareOptions& options);

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_PREPARED_JOB_H_
