#include "common/rpc/channel.h"

#include <grpc/grpc.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"
#include "common/rpc/process_credentials.h"
#include "common/security/identity.h"

namespace sangam {
namespace {

// Plans of large models and long lists of jobs.
constexpr int kMaxReceiveBytes = 64 * 1024 * 1024;
// The message of a status travels as metadata, of which gRPC takes 8 KiB by default.
constexpr int kMaxMetadataBytes = 64 * 1024;

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeControlChannel(
    const std::string& address, const std::shared_ptr<ProcessCredentials>& credentials) {
  ASSIGN_OR_RETURN(const HostPort target, ParseTarget(address));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // A connection of its own: gRPC would share one among all channels to the same address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The caller repeats, with the same request id.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // In this gRPC also the time that one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 2000);
  // Traffic within the cluster must not be caught by a proxy for the web.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(absl::StrCat("dns:///", ToString(target)),
                                   credentials->ChannelTo(RoleSet(Role::kCoordinator)), arguments);
}

void SetTimeout(absl::Duration timeout, grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
}

}  // namespace sangam
