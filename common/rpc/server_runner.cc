#include "common/rpc/server_runner.h"

#include <arpa/inet.h>
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"

namespace sangam {
namespace {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
};

absl::Status CannotListen(const std::string& listen, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", listen, ": ", why));
}

// The one address that `host` stands for, IPv4 first. One, because of a name with several gRPC
// takes those that are free and is content: two servers on "localhost" could share the port.
absl::StatusOr<SocketAddress> Resolve(const HostPort& listen) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(listen.port);
  const int error = getaddrinfo(listen.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return CannotListen(ToString(listen), gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const addrinfo* chosen = found;
  for (const addrinfo* it = found; it != nullptr; it = it->ai_next) {
    if (it->ai_family == AF_INET) {
      chosen = it;
      break;
    }
  }
  SocketAddress address;
  std::memcpy(&address.storage, chosen->ai_addr, chosen->ai_addrlen);
  address.length = chosen->ai_addrlen;
  return address;
}

// "10.0.0.1:7070", as gRPC reads it.
absl::StatusOr<std::string> Numeric(const SocketAddress& address, uint16_t port) {
  char host[NI_MAXHOST];
  const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&address.storage), address.length,
                                host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  if (error != 0) return absl::InternalError(gai_strerror(error));
  return ToString(HostPort{host, port});
}

// gRPC does not say why it could not listen; the system says it again.
std::string ReasonNotToListen(const SocketAddress& address) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::strerror(errno);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // As gRPC does.
  std::string reason = "unknown reason";
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0 ||
      listen(fd, 1) != 0) {
    reason = std::strerror(errno);
  }
  close(fd);
  return reason;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerRunner>> ServerRunner::Start(
    const Options& options, const std::function<void(grpc::ServerBuilder*)>& register_services) {
  ASSIGN_OR_RETURN(HostPort listen, ParseHostPort(options.listen));
  if (listen.host.empty()) listen.host = "0.0.0.0";
  ASSIGN_OR_RETURN(const SocketAddress address, Resolve(listen));
  ASSIGN_OR_RETURN(const std::string numeric, Numeric(address, listen.port));

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  register_services(&builder);
  int port = 0;
  builder.AddListeningPort(numeric, grpc::InsecureServerCredentials(), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  grpc::ResourceQuota quota("server");
  quota.SetMaxThreads(options.max_threads);
  builder.SetResourceQuota(quota);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return CannotListen(ToString(listen), ReasonNotToListen(address));
  }
  listen.port = static_cast<uint16_t>(port);
  return std::unique_ptr<ServerRunner>(new ServerRunner(std::move(server), std::move(listen)));
}

ServerRunner::~ServerRunner() { Shutdown(absl::ZeroDuration()); }

void ServerRunner::Shutdown(absl::Duration deadline) {
  server_->GetHealthCheckService()->SetServingStatus(false);
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline));
  server_->Wait();
}

}  // namespace sangam
