#ifndef SANGAM_SERVER_RPC_VOTE_STREAM_H_
#define SANGAM_SERVER_RPC_VOTE_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/accepted_stream.h"
#include "common/rpc/server_stream.h"
#include "proto/parameter_service.pb.h"
#include "server/runtime/vote_link.h"

namespace sangam {

// Finds where a job's votes are counted; the same object for as long as they are.
// Errors: NotFound  not on this server
using CounterFinder = std::function<absl::StatusOr<std::shared_ptr<VoteCounter>>(uint64_t job)>;

// What the Vote calls of a service share; outlives them.
struct VoteCallContext : AcceptedStreamOptions {
  CounterFinder find_counter;
  // How long a server may leave decisions unread; then the call ends.
  absl::Duration stall_deadline = absl::Seconds(60);
};

// One other server's Vote: hands its votes to the job's counter, and sends it the decisions.
class VoteStream final : public AcceptedStream,
                         public DecisionSink,
                         public std::enable_shared_from_this<VoteStream> {
 public:
  // `context` must outlive the object.
  VoteStream(const VoteCallContext* context, std::shared_ptr<ServerStream> stream);

  // StreamHandler. A server that has half-closed has no use for what waits.
  std::optional<grpc::ByteBuffer> NextMessage() override;
  void OnHalfClosed() override;

  // DecisionSink.
  void Send(std::shared_ptr<const v1::StepDecision> decision) override;

 private:
  // AcceptedStream.
  absl::Status OnNext(const grpc::ByteBuffer& message, bool first) override;
  void DropWaiting() override;
  absl::Status Fault(absl::Duration idle) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(const absl::Status& status) override;
  std::string LogFields() const override;

  absl::Status OnHello(const v1::StepVotes& hello);
  absl::Status OnVotes(const v1::StepVotes& votes);

  const VoteCallContext& context_;

  // Used on the queue's thread, and set there before the stream opens.
  uint64_t job_ = 0;
  uint32_t server_ = 0;
  // Weak: a stream that is idle must not keep the memory of a job that has ended.
  std::weak_ptr<VoteCounter> counter_;

  std::deque<std::shared_ptr<const v1::StepDecision>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_VOTE_STREAM_H_
