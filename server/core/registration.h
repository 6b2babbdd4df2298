#ifndef SANGAM_SERVER_CORE_REGISTRATION_H_
#define SANGAM_SERVER_CORE_REGISTRATION_H_

#include "absl/status/status.h"
#include "proto/cluster_service.pb.h"

namespace sangam {

// Whether a daemon says enough of itself to be let in.
// Errors: InvalidArgument     role, name, incarnation, address, backend or speed
//         FailedPrecondition  it speaks another version of the protocol; names both
absl::Status CheckRegistration(const v1::RegisterRequest& request);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_REGISTRATION_H_
