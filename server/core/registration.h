#ifndef SANGAM_SERVER_CORE_REGISTRATION_H_
#define SANGAM_SERVER_CORE_REGISTRATION_H_

#include <string>

#include "absl/status/status.h"
#include "proto/cluster_service.pb.h"

namespace sangam {

// Whether a daemon says enough of itself to be let in.
// Errors: InvalidArgument     role, name, incarnation, address, backend, device or speed
//         FailedPrecondition  it speaks another version of the protocol; names both
absl::Status CheckRegistration(const v1::RegisterRequest& request);

// What workers have in common on which a block takes the same time: "cpu", "cuda NVIDIA H200".
std::string UnitOf(const v1::RegisterRequest& worker);

}  // namespace sangam

#endif  // SANGAM_SERVER_CORE_REGISTRATION_H_
