#ifndef SANGAM_COMMON_MODEL_FIELD_FAULT_H_
#define SANGAM_COMMON_MODEL_FIELD_FAULT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/errors/error_details.h"

namespace sangam {

// Something wrong with one field of a job.
struct FieldFault {
  std::string field;    // path from the top of JobSpec, such as "model.block[1].layer[0].linear"
  std::string message;  // what was found and what was expected
};

// Appends a fault; its message is made of the pieces.
template <typename... Pieces>
void AddFault(std::vector<FieldFault>* faults, std::string field, const Pieces&... message) {
  faults->push_back({std::move(field), absl::StrCat(message...)});
}

// OK when there are none, else InvalidArgument with one line "field: message" for each; they are
// also its FieldViolations, and its reason is INVALID_JOB.
inline absl::Status ToStatus(const std::vector<FieldFault>& faults) {
  if (faults.empty()) return absl::OkStatus();
  std::string text;
  std::vector<FieldViolation> violations;
  for (const FieldFault& fault : faults) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", fault.field, ": ", fault.message);
    violations.push_back({fault.field, fault.message});
  }
  return WithFieldViolations(WithReason(absl::InvalidArgumentError(text), "INVALID_JOB"),
                             violations);
}

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_FIELD_FAULT_H_
