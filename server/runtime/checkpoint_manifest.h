#ifndef SANGAM_SERVER_RUNTIME_CHECKPOINT_MANIFEST_H_
#define SANGAM_SERVER_RUNTIME_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"

// The file MANIFEST of a checkpoint, the last one to be written. JSON:
//
//   {"checksum": "<xxh3 of the content as compact JSON, 16 hex digits>",
//    "content": {"format": 1, "job": ..., "job_name": ..., "step": ..., "updates": ...,
//                "samples": ..., "train_samples": ..., "time_us": ..., "layout": "<hex>",
//                "worker_kind": ..., "owner": ..., "state": ["exp_avg", ...], "spec": {the JobSpec
//                in protobuf's JSON}, "files": [{"name": ..., "bytes": ..., "xxh3": ["<hex>" for
//                each block]},
//                ...]}}
namespace sangam {

// Bytes of a file under one checksum; the file's last block may be shorter.
inline constexpr uint64_t kCheckpointBlockBytes = uint64_t{1} << 20;

struct CheckpointFile {
  std::string name;
  uint64_t bytes = 0;
  std::vector<uint64_t> checksums;  // XXH3, by block
};

struct CheckpointManifest {
  uint64_t job = 0;
  uint64_t step = 0;           // of the weights
  uint64_t updates = 0;        // that the optimizer had made
  uint64_t samples = 0;        // trained on before this step: the position in the data
  uint64_t train_samples = 0;  // of the training set
  absl::Time time;             // in microseconds
  uint64_t layout_hash = 0;    // LayoutHash of the model's layout
  // What the job's workers had in common (server/core/scheduler.h). Empty in older manifests.
  std::string worker_kind;
  std::string owner;                     // Job.owner
  std::vector<std::string> state_names;  // of the optimizer's arrays
  v1::JobSpec spec;
  std::vector<CheckpointFile> files;

  // Of all files but the manifest.
  uint64_t bytes() const;
};

uint64_t LayoutHash(const v1::ModelLayout& layout);

// Errors: InvalidArgument  a specification that has no JSON
absl::StatusOr<std::string> EncodeManifest(const CheckpointManifest& manifest);

// Errors: DataLoss            not a manifest, or its checksum is another; says what was found
//         FailedPrecondition  of another format
absl::StatusOr<CheckpointManifest> DecodeManifest(absl::string_view text);

// Block `index` of `file` as it was found.
// Errors: DataLoss  it is damaged; names file, offset, found and expected
absl::Status CheckBlock(const CheckpointFile& file, uint64_t index, absl::string_view bytes);

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_CHECKPOINT_MANIFEST_H_
