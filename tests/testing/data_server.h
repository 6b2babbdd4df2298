#ifndef SANGAM_TESTS_TESTING_DATA_SERVER_H_
#define SANGAM_TESTS_TESTING_DATA_SERVER_H_

#include <grpcpp/server.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "server/rpc/data_service.h"
#include "server/runtime/served_data.h"

namespace sangam::testing {

// The jobs that a DataServer serves; outlives it, so that a server can be stopped and another one
// started in its place. Thread-safe.
class ServedJobs {
 public:
  void Set(std::shared_ptr<const ServedJob> job);
  void Remove(uint64_t job);
  ServedJobFinder finder();

 private:
  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<const ServedJob>> jobs_ ABSL_GUARDED_BY(mutex_);
};

// A grpc::Server with a DataService and nothing else, in this process, on 127.0.0.1, with the
// credentials of the process.
class DataServer {
 public:
  // Port 0: any free one. Ends the test when the port is taken.
  DataServer(const DataService::Options& options, ServedJobFinder finder, int port = 0);
  // Stops in order: every call ends with UNAVAILABLE.
  ~DataServer();

  int port() const { return port_; }
  std::string address() const;

 private:
  DataService service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_TESTING_DATA_SERVER_H_
