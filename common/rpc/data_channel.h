#ifndef SANGAM_COMMON_RPC_DATA_CHANNEL_H_
#define SANGAM_COMMON_RPC_DATA_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/rpc/process_credentials.h"
#include "common/security/identity.h"

// Settings of the connections that carry tensors. They are never shared with control: a frame of
// several MiB cannot be preempted, and a heartbeat behind it would wait.
namespace sangam {

// Length of the longest message of a stream whose pages have up to `page_elements` elements, in
// bytes: a page in fp32, its header, and room.
// REQUIRES: page_elements <= kMaxPageElements.
int MaxDataMessageBytes(uint64_t page_elements);

// Largest page that fits into one message.
inline constexpr uint64_t kMaxPageElements = uint64_t{1} << 28;

// What answers a data stream, with TLS: pages and data come from servers and the coordinator,
// activations from workers.
inline constexpr RoleSet kDataServers(Role::kServer, Role::kCoordinator);
inline constexpr RoleSet kDataWorkers(Role::kWorker);

// A channel of its own connection to `address` ("host:port"), for one data stream. Connects when it
// is first used, and tries again by itself 100 ms to 2 s after a failure.
std::shared_ptr<grpc::Channel> CreateDataChannel(
    const std::string& address, uint64_t page_elements, RoleSet peers = kDataServers,
    const std::shared_ptr<ProcessCredentials>& credentials = CurrentProcessCredentials());

// What a server that serves data streams needs; holds for all of its services. The longest message
// that it takes is the builder's to say, since other services have a part in it.
void ConfigureDataServer(grpc::ServerBuilder* builder);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_DATA_CHANNEL_H_
