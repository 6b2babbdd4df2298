#include "tests/testing/parameter_server.h"

#include <grpc/grpc.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/process_credentials.h"
#include "server/rpc/parameter_service.h"

namespace sangam {

ParameterServer::ParameterServer(const ParameterService::Options& options, ShardFinder find_shard,
                                 CounterFinder find_counter)
    : service_(options, std::move(find_shard), std::move(find_counter)) {}

absl::StatusOr<std::shared_ptr<VoteCounter>> ParameterServer::NoCounter(uint64_t /*job*/) {
  return absl::NotFoundError("this server counts no votes");
}

std::unique_ptr<ParameterServer> ParameterServer::Start(const ParameterService::Options& options,
                                                        ShardFinder find_shard, int port,
                                                        CounterFinder find_counter) {
  std::unique_ptr<ParameterServer> server(
      new ParameterServer(options, std::move(find_shard), std::move(find_counter)));
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), CurrentProcessCredentials()->Server(),
                           &server->port_);
  server->service_.Register(&builder);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ == 0) return nullptr;
  server->service_.Start();
  return server;
}

ParameterServer::~ParameterServer() {
  if (server_ == nullptr) return;
  service_.EndCalls();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  service_.Stop();
  // Before the service and its queues, which it uses.
  server_.reset();
}

std::string ParameterServer::address() const { return absl::StrCat("127.0.0.1:", port_); }

}  // namespace sangam
