#ifndef SANGAM_WORKER_RPC_BATCH_ASSEMBLY_H_
#define SANGAM_WORKER_RPC_BATCH_ASSEMBLY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/batch_id.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"
#include "worker/data/batch_buffers.h"
#include "worker/data/batch_source.h"

namespace sangam {

// One micro-batch asked of the coordinator, put together in its buffer from the pieces that come.
// Pure; not thread-safe.
class BatchAssembly {
 public:
  BatchAssembly(const BatchOptions& options, const BatchId& id, const BatchBuffers::Target& target);

  // Forgets what came: the answer begins anew on another stream.
  void Restart();

  // Copies a piece to its place. True: the answer is complete.
  // Errors: InvalidArgument  not the next piece of this answer; names the field, what was found and
  //                          expected. Nothing was written beyond the buffer.
  absl::StatusOr<bool> Add(const v1::FrameHeader& header, const SlicePayload& elements);

  const BatchId& id() const { return id_; }
  const BatchBuffers::Target& target() const { return target_; }
  // Of a complete answer.
  uint64_t rows() const { return rows_; }

 private:
  // What is expected next: the inputs, or the labels.
  bool expects_inputs() const { return options_.input_elements > 0 && !inputs_complete_; }
  absl::Status CheckBelongs(const v1::FrameHeader& header) const;
  absl::Status CheckShape(const v1::FrameHeader& header, size_t payload_bytes) const;

  BatchOptions options_;
  BatchId id_;
  BatchBuffers::Target target_;
  bool began_ = false;  // so rows_ is known
  uint64_t rows_ = 0;
  bool inputs_complete_ = false;
  uint64_t received_ = 0;  // elements of the inputs, then of the labels
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_BATCH_ASSEMBLY_H_
