#ifndef SANGAM_COMMON_RPC_CHANNEL_H_
#define SANGAM_COMMON_RPC_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/process_credentials.h"

namespace sangam {

// A channel of its own connection to `address` ("host:port") for control: small calls with
// deadlines. Connects when it is first used, and again by itself, 100 ms to 2 s after a failure.
// With TLS the peer must be a coordinator.
// Sends no pings: every call has a deadline, and one that gets no answer shows a dead connection.
// Errors: InvalidArgument  not "host:port"
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeControlChannel(
    const std::string& address,
    const std::shared_ptr<ProcessCredentials>& credentials = CurrentProcessCredentials());

// The call fails with DEADLINE_EXCEEDED when it has no answer after `timeout`. Every call needs
// one.
void SetTimeout(absl::Duration timeout, grpc::ClientContext* context);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_CHANNEL_H_
