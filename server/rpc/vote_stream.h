#ifndef SANGAM_SERVER_RPC_VOTE_STREAM_H_
#define SANGAM_SERVER_RPC_VOTE_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/stream_handler.h"
#include "proto/parameter_service.pb.h"
#include "server/runtime/vote_link.h"

namespace sangam {

// Finds where a job's votes are counted; the same object for as long as they are.
// Errors: NotFound  not on this server
using CounterFinder = std::function<absl::StatusOr<std::shared_ptr<VoteCounter>>(uint64_t job)>;

// What the Vote calls of a service share; outlives them.
struct VoteCallContext {
  CounterFinder find_counter;
  CallRegistry* registry = nullptr;
  // Holds one activity for each call, from before it begins until it has finished.
  ActivityCount* activities = nullptr;

  // From the beginning of a stream to its first message.
  absl::Duration hello_deadline = absl::Seconds(10);
  // How long a server may leave decisions unread; then the call ends.
  absl::Duration stall_deadline = absl::Seconds(60);
  // How long a call that is to end waits for a server that does not read; then it is broken off.
  absl::Duration end_grace = absl::Seconds(5);
};

// One other server's Vote: hands its votes to the job's counter, and sends it the decisions. Any
// error ends this stream and nothing else. Thread-safe; shared between its ServerStream, the
// registry and the counter.
class VoteStream final : public StreamHandler,
                         public DecisionSink,
                         public ServedCall,
                         public std::enable_shared_from_this<VoteStream> {
 public:
  // `context` must outlive the object.
  VoteStream(const VoteCallContext* context, std::shared_ptr<ServerStream> stream);

  // StreamHandler.
  absl::Status OnMessage(const grpc::ByteBuffer& message) override;
  std::optional<grpc::ByteBuffer> NextMessage() override;
  void OnHalfClosed() override;
  void OnFinished(const absl::Status& status) override;

  // DecisionSink.
  void Send(std::shared_ptr<const v1::StepDecision> decision) override;

  // ServedCall.
  void End(const absl::Status& error) override;
  void Check(absl::Duration now) override;

 private:
  enum class Phase {
    kNew,  // no message yet
    kOpen,
    kEnded,  // to be finished
  };

  absl::Status OnHello(const v1::StepVotes& hello);
  absl::Status OnVotes(const v1::StepVotes& votes);
  // Forgets what waits and takes no more.
  void DropWaiting();
  absl::Status Fault(absl::Duration idle) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const VoteCallContext& context_;

  // Used on the queue's thread, and set there before the phase becomes kOpen.
  uint64_t job_ = 0;
  uint32_t server_ = 0;
  // Weak: a stream that is idle must not keep the memory of a job that has ended.
  std::weak_ptr<VoteCounter> counter_;

  mutable Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kNew;
  // Dropped when the stream has finished; then Send does nothing.
  std::shared_ptr<ServerStream> stream_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<const v1::StepDecision>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  // Changes whenever the other server is seen to be alive. What Check saw of it last, and when.
  uint64_t progress_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t seen_progress_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Duration> seen_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_VOTE_STREAM_H_
