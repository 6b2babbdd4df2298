#ifndef SANGAM_TESTS_TESTING_PARAMETER_SERVER_H_
#define SANGAM_TESTS_TESTING_PARAMETER_SERVER_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/rpc/parameter_service.h"

namespace sangam {

// A grpc::Server with a ParameterService and nothing else, in this process. What it serves belongs
// to the finder, so a server can be stopped and another one started in its place.
class ParameterServer {
 public:
  // Listens on 127.0.0.1, with the credentials of the process; port 0: any free one. Null when the
  // port is taken.
  static std::unique_ptr<ParameterServer> Start(const ParameterService::Options& options,
                                                ShardFinder find_shard, int port = 0,
                                                CounterFinder find_counter = NoCounter);
  // Stops in order: every call ends with UNAVAILABLE.
  ~ParameterServer();

  int port() const { return port_; }
  std::string address() const;
  ParameterService& service() { return service_; }

 private:
  ParameterServer(const ParameterService::Options& options, ShardFinder find_shard,
                  CounterFinder find_counter);
  static absl::StatusOr<std::shared_ptr<VoteCounter>> NoCounter(uint64_t job);

  ParameterService service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_TESTS_TESTING_PARAMETER_SERVER_H_
