#ifndef SANGAM_COMMON_MODEL_FIELD_FAULT_H_
#define SANGAM_COMMON_MODEL_FIELD_FAULT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

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

// OK when there are none, else InvalidArgument with one line "field: message" for each.
inline absl::Status ToStatus(const std::vector<FieldFault>& faults) {
  std::string text;
  for (const FieldFault& fault : faults) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", fault.field, ": ", fault.message);
  }
  return faults.empty() ? absl::OkStatus() : absl::InvalidArgumentError(text);
}

}  // namespace sangam

#endif  // SANGAM_COMMON_MODEL_FIELD_FAULT_H_
