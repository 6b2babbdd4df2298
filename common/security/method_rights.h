#ifndef SANGAM_COMMON_SECURITY_METHOD_RIGHTS_H_
#define SANGAM_COMMON_SECURITY_METHOD_RIGHTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/security/identity.h"

// Which role may call which method. What is not in the table is allowed to nobody. Whether a caller
// may see or change one job is decided where the job is known: common/security/caller.h.
namespace sangam {

// The roles that may call `method` ("/sangam.v1.JobService/SubmitJob"); none when the table does
// not know it.
RoleSet RolesFor(absl::string_view method);

// Errors: PermissionDenied  names the caller and the method
absl::Status CheckMethod(const Identity& caller, absl::string_view method);

}  // namespace sangam

#endif  // SANGAM_COMMON_SECURITY_METHOD_RIGHTS_H_
