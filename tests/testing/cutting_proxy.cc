#include "tests/testing/cutting_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"

namespace sangam {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

bool SendAll(int socket, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace

CuttingProxy::CuttingProxy(int target_port, uint64_t seed, int cuts, uint64_t most_bytes)
    : target_port_(target_port), cuts_(cuts), most_bytes_(most_bytes), random_(seed) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  SANGAM_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  SANGAM_CHECK(listen(listener_, 16) == 0);
  SANGAM_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  accept_thread_ = std::thread([this] { Accept(); });
}

CuttingProxy::~CuttingProxy() {
  std::vector<std::shared_ptr<Connection>> connections;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    connections = connections_;
  }
  shutdown(listener_, SHUT_RDWR);
  accept_thread_.join();
  for (const auto& connection : connections) Reset(*connection);
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& connection : connections) {
    close(connection->client);
    close(connection->server);
  }
  close(listener_);
}

std::string CuttingProxy::address() const { return absl::StrCat("127.0.0.1:", port_); }

void CuttingProxy::Accept() {
  for (int number = 0;; ++number) {
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    const auto connection = std::make_shared<Connection>();
    connection->client = client;
    connection->server = socket(AF_INET, SOCK_STREAM, 0);
    connection->left = number < cuts_ ? static_cast<int64_t>(random_() % most_bytes_)
                                      : std::numeric_limits<int64_t>::max();
    const sockaddr_in target = Loopback(target_port_);
    if (connect(connection->server, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) !=
        0) {
      close(connection->client);
      close(connection->server);
      continue;
    }
    MutexLock lock(&mutex_);
    if (stopped_) {
      close(connection->client);
      close(connection->server);
      return;
    }
    connections_.push_back(connection);
    threads_.emplace_back(
        [this, connection] { Forward(connection, connection->client, connection->server); });
    threads_.emplace_back(
        [this, connection] { Forward(connection, connection->server, connection->client); });
  }
}

void CuttingProxy::Forward(const std::shared_ptr<Connection>& connection, int from, int to) {
  std::vector<char> bytes(16 * 1024);
  for (;;) {
    const ssize_t received = recv(from, bytes.data(), bytes.size(), 0);
    if (received <= 0) break;
    const int64_t left = connection->left.fetch_sub(received);
    const int64_t passed = std::clamp<int64_t>(left, 0, received);
    if (!SendAll(to, bytes.data(), static_cast<size_t>(passed))) break;
    if (passed < received) {
      if (!connection->over.exchange(true)) ++num_cut_;
      break;
    }
  }
  Reset(*connection);
}

void CuttingProxy::Reset(Connection& connection) {
  // The sockets are closed at the end, when no thread uses them any more.
  connection.over = true;
  shutdown(connection.client, SHUT_RDWR);
  shutdown(connection.server, SHUT_RDWR);
}

}  // namespace sangam
