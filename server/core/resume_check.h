#ifndef SANGAM_SERVER_CORE_RESUME_CHECK_H_
#define SANGAM_SERVER_CORE_RESUME_CHECK_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/model/field_fault.h"
#include "proto/job.pb.h"

namespace sangam {

// Whether a job can go on from a checkpoint of another one: every field of model, loss, data,
// optimizer, batch, seed and precision that differs, with what `spec` has and what the checkpoint's
// job had, and of the length where the learning rate follows from it. Where its data is read
// (data.served) may differ. Both with their defaults resolved.
std::vector<FieldFault> CheckResume(const v1::JobSpec& spec, const v1::JobSpec& checkpoint);

// Whether workers of one kind (WorkerKind) can go on from what others have trained: only those of
// the same kind, since others sum in another order and the weights at the end would be those of
// neither. Nothing where either is not known (empty).
// Errors: FailedPrecondition  names both
absl::Status CheckResumeKind(absl::string_view workers, absl::string_view checkpoint);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_RESUME_CHECK_H_
