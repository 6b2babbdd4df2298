#include "common/model/checkpoint_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "common/model/field_fault.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

constexpr uint32_t kDefaultKeep = 2;
constexpr uint32_t kMaxKeep = 1000;
constexpr double kMaxSeconds = 1e9;

bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
}

bool IsNumber(absl::string_view text) {
  return !text.empty() && text.size() <= 19 && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

}  // namespace

void CheckCheckpoint(const v1::JobSpec& spec, std::vector<FieldFault>* faults) {
  const v1::CheckpointSpec& checkpoint = spec.checkpoint();
  const double seconds = checkpoint.every_seconds();
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kMaxSeconds) {
    AddFault(faults, "checkpoint.every_seconds", "found ", seconds, ", expected 0 to ",
             kMaxSeconds);
  } else if (spec.has_checkpoint() && checkpoint.every_steps() == 0 && seconds == 0) {
    AddFault(faults, "checkpoint", "found neither every_steps nor every_seconds, expected one");
  }
  if (checkpoint.has_keep() && (checkpoint.keep() == 0 || checkpoint.keep() > kMaxKeep)) {
    AddFault(faults, "checkpoint.keep", "found ", checkpoint.keep(), ", expected 1 to ", kMaxKeep);
  }
  if (spec.resume_from().empty()) return;
  const absl::string_view from = spec.resume_from();
  const size_t slash = from.find('/');
  const bool good = IsName(from.substr(0, slash)) &&
                    (slash == absl::string_view::npos || IsNumber(from.substr(slash + 1)));
  if (!good) {
    AddFault(faults, "resume_from", "found \"", from.substr(0, 200),
             "\", expected JOB or JOB/STEP, JOB a number or a name");
  }
}

void ResolveCheckpoint(v1::JobSpec* spec) {
  if (!spec->has_checkpoint() || spec->checkpoint().has_keep()) return;
  spec->mutable_checkpoint()->set_keep(kDefaultKeep);
}

}  // namespace sangam
