#ifndef SANGAM_COMMON_BASE_JOB_SCOPE_H_
#define SANGAM_COMMON_BASE_JOB_SCOPE_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace sangam {

// Whose jobs a call may see: to it the others do not exist.
class JobScope {
 public:
  // All.
  JobScope() = default;
  // Those of one owner.
  explicit JobScope(std::string owner) : owner_(std::move(owner)) {}

  bool Includes(absl::string_view owner) const { return !owner_.has_value() || *owner_ == owner; }
  bool is_all() const { return !owner_.has_value(); }

 private:
  std::optional<std::string> owner_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_JOB_SCOPE_H_
