#ifndef SANGAM_SERVER_RUNTIME_CHECKPOINT_INPUT_H_
#define SANGAM_SERVER_RUNTIME_CHECKPOINT_INPUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/core/checkpoint_layout.h"
#include "server/runtime/checkpoint_manifest.h"
#include "server/runtime/disk.h"

namespace sangam {

// Reads a checkpoint; nothing is returned that its checksums do not confirm. Not thread-safe.
class CheckpointInput {
 public:
  // Reads the manifest and opens the files.
  // Errors: NotFound            no such checkpoint
  //         DataLoss            damaged; names file, offset, found and expected
  //         FailedPrecondition  of another format, or its model is laid out otherwise today
  static absl::StatusOr<std::unique_ptr<CheckpointInput>> Open(const std::string& folder);

  const CheckpointManifest& manifest() const { return manifest_; }
  const CheckpointLayout& layout() const { return layout_; }

  // Reads everything.
  // Errors: DataLoss  damaged; names the first place
  absl::Status Verify();

  // The payload of a frame of kind STATE: the weights of a range of a segment, then each array of
  // the optimizer's state.
  // Errors: InvalidArgument  not within the segment
  //         DataLoss         damaged
  absl::StatusOr<std::string> Read(uint32_t segment, uint64_t first, uint64_t count);

 private:
  // A file and its last block that was read and confirmed.
  struct OpenFile {
    std::unique_ptr<Disk::File> file;
    CheckpointFile facts;
    uint64_t block = UINT64_MAX;
    std::vector<char> bytes;
  };

  CheckpointInput(CheckpointManifest manifest, CheckpointLayout layout)
      : manifest_(std::move(manifest)), layout_(std::move(layout)) {}
  absl::Status OpenFiles(const std::string& folder);
  static absl::Status LoadBlock(OpenFile* file, uint64_t block);
  static absl::Status Copy(OpenFile* file, uint64_t offset, size_t count, char* to);

  const CheckpointManifest manifest_;
  const CheckpointLayout layout_;
  std::array<OpenFile, CheckpointLayout::kFiles> files_;
};

// The manifest of the checkpoint in `folder`, its own checksum confirmed.
// Errors: as CheckpointInput::Open; they begin with the folder
absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& folder);

}  // namespace sangam

#endif  // SANGAM_SERVER_RUNTIME_CHECKPOINT_INPUT_H_
