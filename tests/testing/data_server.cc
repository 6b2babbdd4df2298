#include "tests/testing/data_server.h"

#include <grpc/grpc.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/rpc/process_credentials.h"
#include "server/rpc/data_service.h"
#include "server/runtime/served_data.h"

namespace sangam::testing {

void ServedJobs::Set(std::shared_ptr<const ServedJob> job) {
  MutexLock lock(&mutex_);
  const uint64_t number = job->plan().job();
  jobs_[number] = std::move(job);
}

void ServedJobs::Remove(uint64_t job) {
  MutexLock lock(&mutex_);
  jobs_.erase(job);
}

ServedJobFinder ServedJobs::finder() {
  return [this](uint64_t job) -> absl::StatusOr<std::shared_ptr<const ServedJob>> {
    MutexLock lock(&mutex_);
    const auto found = jobs_.find(job);
    if (found != jobs_.end()) return found->second;
    return absl::NotFoundError(absl::StrCat("job ", job, ": no data of it"));
  };
}

DataServer::DataServer(const DataService::Options& options, ServedJobFinder finder, int port)
    : service_(options, std::move(finder)) {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), CurrentProcessCredentials()->Server(),
                           &port_);
  service_.Register(&builder);
  server_ = builder.BuildAndStart();
  SANGAM_CHECK(server_ != nullptr && port_ != 0);
  service_.Start();
}

DataServer::~DataServer() {
  service_.EndCalls();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  service_.Stop();
  // Before the service and its queues, which it uses.
  server_.reset();
}

std::string DataServer::address() const { return absl::StrCat("127.0.0.1:", port_); }

}  // namespace sangam::testing
