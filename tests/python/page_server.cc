// A server that holds one small job and speaks ParameterService, for clients in other languages:
// page_server READY_FILE. It serves until its standard input ends.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/daemon_process.h"
#include "common/rpc/host_port.h"
#include "common/rpc/server_runner.h"
#include "grpcpp/server_builder.h"
#include "proto/plan.pb.h"
#include "server/rpc/parameter_service.h"
#include "server/runtime/shard_table.h"
#include "tests/server/runtime/shard_fixture.h"

namespace sangam {
namespace {

absl::Status Serve(const std::string& ready_file) {
  ShardTable shards("s0");
  v1::Assignment assignment = SmallJob(7, 2, {"s0"});
  shards.Reconcile({assignment});
  assignment.set_phase(v1::Assignment::RUN);
  shards.Reconcile({assignment});
  ParameterService service(
      ParameterService::Options(), [&shards](uint64_t job) { return shards.Find(job); },
      [&shards](uint64_t job) { return shards.FindCounter(job); });
  ServerRunner::Options options;
  options.listen = "127.0.0.1:0";
  absl::StatusOr<std::unique_ptr<ServerRunner>> runner = ServerRunner::Start(
      options, [&service](grpc::ServerBuilder* builder) { service.Register(builder); });
  if (!runner.ok()) return runner.status();
  service.Start();
  const absl::Status status = WriteReadyFile(ready_file, ToString((*runner)->address()));
  char byte;
  while (status.ok() && read(STDIN_FILENO, &byte, 1) > 0) {
  }
  service.EndCalls();
  (*runner)->Shutdown(absl::Seconds(2));
  service.Stop();
  return status;
}

}  // namespace
}  // namespace sangam

int main(int argc, char** argv) {
  const absl::Status status = argc == 2
                                  ? sangam::Serve(argv[1])
                                  : absl::InvalidArgumentError("usage: page_server READY_FILE");
  if (status.ok()) return 0;
  std::fprintf(stderr, "page_server: %s\n", status.ToString().c_str());
  return 1;
}
