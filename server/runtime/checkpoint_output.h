#ifndef SANGAM_SERVER_RUNTIME_CHECKPOINT_OUTPUT_H_
#define SANGAM_SERVER_RUNTIME_CHECKPOINT_OUTPUT_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/tensor.pb.h"
#include "server/core/checkpoint_layout.h"
#include "server/runtime/checkpoint_manifest.h"
#include "server/runtime/disk.h"

namespace sangam {

// Writes one checkpoint: pages in any order into "step-<n>.partial", which becomes "step-<n>" when
// everything in it, the manifest last, has reached the disk. So a folder of that name is complete,
// whenever the process is killed. One that has the name already and is another one gives it up in
// the same moment; where the file system cannot do that, it stands aside for that moment as
// "step-<n>.replaced", and whoever finds it without the other gives it its name back
// (CheckpointStore). Needs memory for one block. Not thread-safe.
class CheckpointOutput {
 public:
  // Ends the name of a folder that is not complete.
  static constexpr char kPartial[] = ".partial";
  // Ends the name of one that makes room for another of its step.
  static constexpr char kReplaced[] = ".replaced";

  // `folder`: of the job's checkpoints, made when it is missing. What an earlier process left
  // unfinished of this step is removed. `manifest`: without files. `disk` must outlive the object.
  // Errors: as the system says
  static absl::StatusOr<std::unique_ptr<CheckpointOutput>> Begin(Disk* disk,
                                                                 const std::string& folder,
                                                                 CheckpointManifest manifest,
                                                                 CheckpointLayout layout);
  // Without Commit nothing remains.
  ~CheckpointOutput();
  CheckpointOutput(const CheckpointOutput&) = delete;
  CheckpointOutput& operator=(const CheckpointOutput&) = delete;

  // One page: a frame of kind STATE.
  // Errors: InvalidArgument  not a page of this job, step and layout, or it came before; names
  //                          field, found and expected
  //         others           as the system says
  absl::Status Add(const v1::FrameHeader& header, absl::string_view payload);

  // Returns the manifest as it was written. A checkpoint of the step that is there already stays
  // when it is the same and not damaged. Call once.
  // Errors: FailedPrecondition  pages are missing
  //         others              as the system says
  absl::StatusOr<CheckpointManifest> Commit();

 private:
  CheckpointOutput(Disk* disk, std::string folder, CheckpointManifest manifest,
                   CheckpointLayout layout);

  absl::Status Open();
  absl::Status CheckHeader(const v1::FrameHeader& header, size_t payload_bytes) const;
  absl::StatusOr<CheckpointFile> Sum(size_t file) const;
  // What is complete gets its name; what had it remains, as `partial_` or `replaced_`.
  absl::Status TakeName();
  // What the disk has of this step, when it is the same and not damaged.
  std::optional<CheckpointManifest> Existing() const;
  std::string Path(absl::string_view name) const;

  Disk& disk_;
  const std::string folder_;
  CheckpointManifest manifest_;
  const CheckpointLayout layout_;
  const std::string final_;
  const std::string partial_;
  const std::string replaced_;
  std::array<std::unique_ptr<Disk::File>, CheckpointLayout::kFiles> files_;
  // End of each range that has come, by segment and first element.
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> ranges_;
  uint64_t elements_ = 0;  // that have come
  bool committed_ = false;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_CHECKPOINT_OUTPUT_H_
