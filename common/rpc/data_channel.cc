#include "common/rpc/data_channel.h"

#include <grpc/grpc.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/check.h"
#include "common/rpc/process_credentials.h"
#include "common/security/identity.h"

namespace sangam {
namespace {

constexpr int kHeaderRoomBytes = 64 * 1024;

// A peer that answers no ping for this long is gone, though the kernel may not know it: its machine
// lost power, or a router forgot the connection.
constexpr int kPingIntervalMs = 20'000;
constexpr int kPingTimeoutMs = 20'000;
// What the server must allow at least; less than the interval, for pings that arrive bunched.
constexpr int kLeastPingIntervalMs = 10'000;

}  // namespace

int MaxDataMessageBytes(uint64_t page_elements) {
  SANGAM_CHECK(page_elements <= kMaxPageElements);
  return static_cast<int>(page_elements * sizeof(float)) + kHeaderRoomBytes;
}

std::shared_ptr<grpc::Channel> CreateDataChannel(
    const std::string& address, uint64_t page_elements, RoleSet peers,
    const std::shared_ptr<ProcessCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(MaxDataMessageBytes(page_elements));
  // A connection of its own: gRPC would share one among all channels to the same address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // gRPC's own retries keep what was sent, and with it the memory of gradients. We send again
  // ourselves what was not answered.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 2000);
  // Traffic within the cluster must not be caught by a proxy for the web.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // In this gRPC also the time that one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingIntervalMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  // A stream may be silent for as long as the slowest worker computes.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // What gRPC does by itself and must not be turned off: GRPC_ARG_HTTP2_BDP_PROBE, without which
  // the connection's window stays at 64 KiB.
  return grpc::CreateCustomChannel(address, credentials->ChannelTo(peers), arguments);
}

void ConfigureDataServer(grpc::ServerBuilder* builder) {
  // A connection without calls too: a peer that is gone must not keep it until it is idle for long.
  // And clients may ask as often without a call as with one.
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingIntervalMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kLeastPingIntervalMs);
}

}  // namespace sangam
