#ifndef SANGAM_TESTS_COMMON_RPC_FAKE_CLUSTER_H_
#define SANGAM_TESTS_COMMON_RPC_FAKE_CLUSTER_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/server_runner.h"
#include "proto/cluster_service.grpc.pb.h"

namespace sangam {

// A coordinator of tests: says what it is told to say and remembers what it heard. Thread-safe.
class FakeCluster final : public v1::ClusterService::Service {
 public:
  // What was heard, in words: "register w-1", "report 7/1 step 3", "leave w-1 why". Heartbeats are
  // only counted, but for the first one that says "drains w-1"; it is drained once it has no
  // assignments.
  using Heard = std::vector<std::string>;

  explicit FakeCluster(const std::string& listen = "127.0.0.1:0");
  // As if the process were killed.
  ~FakeCluster() override;

  std::string address() const;

  // What Register answers from now on, 3 s at first; heartbeats wait for at most a third of it.
  void SetLease(absl::Duration lease);

  // The next calls of this kind end with these, one after the other; then with OK.
  void FailRegister(std::vector<grpc::StatusCode> codes);
  void FailHeartbeat(std::vector<grpc::StatusCode> codes);
  void FailReport(std::vector<grpc::StatusCode> codes);

  // What heartbeats answer from now on; those that wait are answered at once.
  void Assign(const std::vector<v1::Assignment>& assignments);

  // Heartbeats do not wait for news, as with a coordinator that has too many daemons.
  void AnswerAtOnce();

  Heard heard() const;
  int heartbeats() const;
  // Waits until `done`, which is called with what was heard; false after 20 seconds.
  bool WaitFor(const std::function<bool(const Heard&)>& done) const;
  bool WaitUntilHeard(const std::string& what) const;
  bool WaitForHeartbeats(int count) const;

  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest*,
                        v1::RegisterResponse*) override;
  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest*,
                         v1::HeartbeatResponse*) override;
  grpc::Status Report(grpc::ServerContext*, const v1::ReportRequest*, v1::ReportResponse*) override;
  grpc::Status Leave(grpc::ServerContext*, const v1::LeaveRequest*, v1::LeaveResponse*) override;

 private:
  using Codes = std::deque<grpc::StatusCode>;

  // The next of the codes as a status.
  static grpc::Status Next(Codes* codes);
  void Note(std::string what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  mutable CondVar changed_;
  Heard heard_ ABSL_GUARDED_BY(mutex_);
  int heartbeats_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration lease_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(3);
  bool at_once_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<v1::Assignment> assignments_ ABSL_GUARDED_BY(mutex_);
  Codes register_codes_ ABSL_GUARDED_BY(mutex_);
  Codes heartbeat_codes_ ABSL_GUARDED_BY(mutex_);
  Codes report_codes_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ServerRunner> server_;
};

}  // namespace sangam

#endif  // SANGAM_TESTS_COMMON_RPC_FAKE_CLUSTER_H_
