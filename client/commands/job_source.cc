#include "client/commands/job_source.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/command.h"
#include "client/field_override.h"
#include "client/job_file.h"
#include "common/base/status_macros.h"
#include "common/flags/flags.h"

namespace sangam {

void JobSource::AddFlags(FlagSet* flags) {
  flags->AddRepeated(
      {"set", "PATH=VALUE",
       "Changes a field of the job file, such as epochs=1, optimizer.learning_rate=0.1 or "
       "model.block[0].layer[1].dropout.rate=0.2. May be given several times."},
      &overrides_);
}

absl::StatusOr<v1::JobSpec> JobSource::Read(const std::string& path) const {
  ASSIGN_OR_RETURN(v1::JobSpec spec, ReadJobFile(path));
  for (const std::string& assignment : overrides_) {
    absl::Status status = ApplyOverride(assignment, &spec);
    if (status.ok()) status = CheckUtf8(spec);
    if (!status.ok()) return UsageError(WithContext(status, absl::StrCat("--set ", assignment)));
  }
  return spec;
}

}  // namespace sangam
