#ifndef SANGAM_COMMON_RPC_GRPC_STATUS_H_
#define SANGAM_COMMON_RPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <cstddef>

#include "absl/status/status.h"

// The two ways to say how a call ended. Their codes have the same numbers and meanings.
namespace sangam {

// A message travels as metadata, percent-encoded, and a client takes 8 KiB of metadata by default:
// with a longer message it would see another error altogether.
inline constexpr size_t kMaxEncodedMessageBytes = size_t{6} * 1024;
// Message and details together.
inline constexpr size_t kMaxEncodedErrorBytes = size_t{7} * 1024;

// A very long message is cut. The error's details (common/errors/error_details.h) go along, as
// google.rpc.Status in the trailer `grpc-status-details-bin`, as far as a client takes so much:
// with a message so long that there is no room for them, violations of fields are left out, then
// all. Each error has a reason; without one of its own it is the name of the code. Those after
// which it makes sense to try again say when.
grpc::Status ToGrpcStatus(const absl::Status& status);

// Code and message.
absl::Status FromGrpcStatus(const grpc::Status& status);

// With the details, which become payloads again.
absl::Status FromGrpcStatusWithDetails(const grpc::Status& status);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_GRPC_STATUS_H_
