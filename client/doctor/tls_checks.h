#ifndef SANGAM_CLIENT_DOCTOR_TLS_CHECKS_H_
#define SANGAM_CLIENT_DOCTOR_TLS_CHECKS_H_

#include "absl/time/time.h"
#include "client/doctor/finding.h"
#include "common/security/security_flags.h"

namespace sangam {

// The files of a process's credentials: readable, secret where they must be, belonging together,
// good for now and a while. One finding that is skipped where there are none.
Findings CheckCredentials(const SecurityFlags& flags, absl::Time now);

}  // namespace sangam

#endif  // SANGAM_CLIENT_DOCTOR_TLS_CHECKS_H_
