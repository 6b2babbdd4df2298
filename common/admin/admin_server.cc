#include "common/admin/admin_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/admin/http_connection.h"
#include "common/admin/listener.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/host_port.h"
#include "httplib.h"

namespace sangam {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kPrometheus[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kJson[] = "application/json";

// How late the server sees that it is to end.
constexpr absl::Duration kLook = absl::Milliseconds(200);
// After an accept that failed.
constexpr useconds_t kPauseUs = 10'000;

// The name of somebody else's page can be made to stand for this machine (DNS rebinding), whose
// scripts may then ask here; it is the name that the browser sends.
std::string HostIn(const std::string& host_header) {
  absl::StatusOr<HostPort> found = ParseHostPort(host_header);
  if (!found.ok()) found = ParseHostPort(absl::StrCat(host_header, ":0"));
  return found.ok() ? found->host : "";
}

bool IsAddress(const std::string& host) {
  in6_addr unused;
  return inet_pton(AF_INET, host.c_str(), &unused) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &unused) == 1;
}

// Whether a request was meant for an address, or for the machine that it comes from.
bool IsAddressOrLocalhost(const std::string& host_header) {
  const std::string host = HostIn(host_header);
  return host == "localhost" || IsAddress(host);
}

// Whether a program of this machine asks under a name that anybody can have bought. Names without a
// dot are of the machine and its network.
bool IsAskedByAForeignName(const httplib::Request& request) {
  if (!IsLoopback(request.remote_addr) || !request.has_header("Host")) return false;
  const std::string host = HostIn(request.get_header_value("Host"));
  return host.empty() || (absl::StrContains(host, '.') && !IsAddress(host));
}

// Parses requests and finds their pages; listening is not its business.
class Pages final : public httplib::Server {
 public:
  explicit Pages(AdminPages pages) : pages_(std::move(pages)) {
    Get("/livez", [this](const auto&, auto& response) { Probe(pages_.not_live(), &response); });
    Get("/readyz", [this](const auto&, auto& response) { Probe(pages_.not_ready(), &response); });
    Get("/metrics", [this](const auto&, auto& response) {
      response.set_content(pages_.metrics(), kPrometheus);
    });
    Get("/statusz",
        [this](const auto&, auto& response) { response.set_content(pages_.status(), kJson); });
    Get("/loglevel", [](const auto&, auto& response) { ShowLevel(&response); });
    set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
      // The answer of nothing here may be taken for a page of another kind.
      response.set_header("X-Content-Type-Options", "nosniff");
      response.set_header("Cache-Control", "no-store");
      const bool reads = request.method == "GET" || request.method == "HEAD";
      const bool probes = request.path == "/livez" || request.path == "/readyz";
      if (reads && !probes && IsAskedByAForeignName(request)) {
        response.status = 403;
        response.set_content("Host: expected an address, localhost or a name without dots\n",
                             kText);
        return HandlerResponse::Handled;
      }
      if (reads) return HandlerResponse::Unhandled;
      if (request.method == "PUT" && request.path == "/loglevel") {
        // Here, since no body is awaited here.
        ChangeLevel(request, &response);
        return HandlerResponse::Handled;
      }
      response.status = 405;
      response.set_header("Allow", "GET, HEAD");
      response.set_content("only GET\n", kText);
      return HandlerResponse::Handled;
    });
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) {
        response.set_content(absl::StrCat("error ", response.status, "\n"), kText);
      }
    });
    set_payload_max_length(1024);
  }

  void Serve(HttpConnection* connection) {
    bool closed = false;
    process_request(*connection, true, closed, nullptr);
  }

 private:
  static void Probe(const std::string& fault, httplib::Response* response) {
    if (!fault.empty()) response->status = 503;
    response->set_content(absl::StrCat(fault.empty() ? "ok" : fault, "\n"), kText);
  }

  static void ShowLevel(httplib::Response* response) {
    response->set_content(absl::StrCat(LogLevelName(CurrentLogLevel()), "\n"), kText);
  }

  // A browser would have to ask first, since PUT is no simple method, and gets no permission.
  static void ChangeLevel(const httplib::Request& request, httplib::Response* response) {
    absl::Status status;
    if (!IsLoopback(request.remote_addr)) {
      response->status = 403;
      response->set_content("the log level is changed from this machine only\n", kText);
      return;
    }
    if (!IsAddressOrLocalhost(request.get_header_value("Host"))) {
      response->status = 403;
      response->set_content("Host: expected an address or localhost\n", kText);
      return;
    }
    const std::string level = request.get_param_value("level");
    if (status = SetLogLevel(level); !status.ok()) {
      response->status = 400;
      response->set_content(absl::StrCat(status.message(), "\n"), kText);
      return;
    }
    // Whatever the level is now.
    LogUnobserved(LogLevel::kError, "log level changed", absl::StrCat("level=", level));
    ShowLevel(response);
  }

  const AdminPages pages_;
};

class HttpAdminServer final : public AdminServer {
 public:
  HttpAdminServer(const Options& options, std::unique_ptr<Listener> listener, AdminPages pages)
      : options_(options), listener_(std::move(listener)), pages_(std::move(pages)) {
    threads_.emplace_back([this] { AcceptAll(); });
    for (size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Serve(); });
  }

  ~HttpAdminServer() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
    }
    for (std::thread& thread : threads_) thread.join();
    for (const int fd : waiting_) close(fd);
  }

  const HostPort& address() const override { return listener_->address(); }

 private:
  bool stopping() {
    MutexLock lock(&mutex_);
    return stopping_;
  }

  // Those who say nothing hold no thread, and make room for others.
  void AcceptAll() {
    std::deque<pollfd> silent;  // oldest first
    while (!stopping()) {
      std::vector<pollfd> look = {{listener_->fd(), POLLIN, 0}};
      look.insert(look.end(), silent.begin(), silent.end());
      poll(look.data(), look.size(), static_cast<int>(absl::ToInt64Milliseconds(kLook)));
      silent.clear();
      for (size_t i = 1; i < look.size(); ++i) {
        if (look[i].revents != 0) {
          HandOver(look[i].fd);
        } else {
          silent.push_back(look[i]);
        }
      }
      if (look[0].revents == 0) continue;
      const int fd = listener_->Accept();
      if (fd >= 0) {
        silent.push_back({fd, POLLIN, 0});
      } else {
        // For want of a descriptor the listener stays readable, and the loop would spin.
        usleep(kPauseUs);
      }
      if (silent.size() <= options_.max_waiting) continue;
      close(silent.front().fd);
      silent.pop_front();
    }
    for (const pollfd& left : silent) close(left.fd);
  }

  void HandOver(int fd) {
    MutexLock lock(&mutex_);
    if (waiting_.size() >= options_.max_waiting) {
      close(fd);
      return;
    }
    waiting_.push_back(fd);
    changed_.SignalAll();
  }

  void Serve() {
    for (;;) {
      int fd = -1;
      {
        MutexLock lock(&mutex_);
        while (waiting_.empty() && !stopping_) changed_.WaitFor(&mutex_, absl::Seconds(10));
        if (stopping_) return;
        fd = waiting_.front();
        waiting_.pop_front();
      }
      HttpConnection connection(fd, PeerHost(fd), options_.deadline, options_.max_request_bytes);
      pages_.Serve(&connection);
    }
  }

  const Options options_;
  const std::unique_ptr<Listener> listener_;
  Pages pages_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<int> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(const Options& options,
                                                                AdminPages pages) {
  ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, Listener::Open(options.listen),
                   "--admin_listen");
  LogInfo("admin server ready", "address=%s", ToString(listener->address()));
  return std::make_unique<HttpAdminServer>(options, std::move(listener), std::move(pages));
}

}  // namespace sangam
