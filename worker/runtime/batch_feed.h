#ifndef SANGAM_WORKER_RUNTIME_BATCH_FEED_H_
#define SANGAM_WORKER_RUNTIME_BATCH_FEED_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "worker/data/batch_source.h"

namespace sangam {

// Makes the source of batches of a job whose data the coordinator serves. `worker`: index in the
// plan, of one with the first block (options.input_elements > 0), the last one
// (options.labels_per_sample > 0) or both. The sequence is called on one thread of the source.
// Errors: InvalidArgument    the options contradict the plan
//         ResourceExhausted  the memory cannot be had
using BatchFeedFactory = std::function<absl::StatusOr<std::unique_ptr<BatchSource>>(
    const v1::Plan& plan, uint32_t worker, const BatchOptions& options, BatchSequence sequence)>;

}  // namespace sangam

#endif  // SANGAM_WORKER_RUNTIME_BATCH_FEED_H_
