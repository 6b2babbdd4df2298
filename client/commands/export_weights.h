#ifndef SANGAM_CLIENT_COMMANDS_EXPORT_WEIGHTS_H_
#define SANGAM_CLIENT_COMMANDS_EXPORT_WEIGHTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "proto/job.pb.h"

namespace sangam {

// What was written.
struct ExportedWeights {
  // The weights' step.
  uint64_t step = 0;
  uint64_t tensors = 0;
  // Of all elements, without the file's header.
  uint64_t bytes = 0;

  // "6 tensors, 2.1 MiB, step 705"
  std::string Summary() const;
};

// Reads a job's weights from its servers and writes them as safetensors.
// Errors: as ReadWeights and WriteSafetensors; Cancelled  the user has asked to stop
absl::StatusOr<ExportedWeights> ExportWeights(const v1::Job& job, const std::string& path,
                                              absl::Duration connect_deadline,
                                              const Environment& environment);

}  // namespace sangam

#endif  // SANGAM_CLIENT_COMMANDS_EXPORT_WEIGHTS_H_
