#ifndef SANGAM_SERVER_RPC_PARAMETER_STREAM_H_
#define SANGAM_SERVER_RPC_PARAMETER_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/stream_handler.h"
#include "common/tensor/frame_codec.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

// Finds the shard of a job; the same object for as long as the server holds the job.
// Errors: NotFound  the server does not hold the job
using ShardFinder = std::function<absl::StatusOr<std::shared_ptr<ParameterShard>>(uint64_t job)>;

// What the calls of a service share; outlives them.
struct ParameterCallContext {
  ShardFinder find_shard;
  CallRegistry* registry = nullptr;
  // Holds one activity for each call, from before it begins until it has finished.
  ActivityCount* activities = nullptr;

  // Of a worker's message.
  size_t max_message_bytes = 0;
  // Pages whose weights may wait for one client at once.
  size_t max_waiting_frames = 65536;
  // From the beginning of a stream to its HELLO.
  absl::Duration hello_deadline = absl::Seconds(10);
  // How long a client may leave weights unread; then the call ends.
  absl::Duration stall_deadline = absl::Seconds(60);
  // How long a call that is to end waits for a client that does not read; then it is broken off.
  absl::Duration end_grace = absl::Seconds(5);
};

// One worker's PushPull: checks its frames, hands them to the job's shard on the thread that
// received them, and sends it the weights that the shard publishes. Any error ends this stream and
// nothing else. Thread-safe; shared between its ServerStream, the registry and the shard.
class ParameterStream final : public StreamHandler,
                              public WeightsSink,
                              public ServedCall,
                              public std::enable_shared_from_this<ParameterStream> {
 public:
  // `context` must outlive the object.
  ParameterStream(const ParameterCallContext* context, std::shared_ptr<ServerStream> stream);

  // StreamHandler.
  absl::Status OnMessage(const grpc::ByteBuffer& message) override;
  std::optional<grpc::ByteBuffer> NextMessage() override;
  void OnHalfClosed() override;
  void OnFinished(const absl::Status& status) override;

  // WeightsSink: queues the weights. Those of the same page that still wait are replaced when they
  // are older. Holds the page's memory, copies nothing.
  void Send(const PageWeights& weights) override;

  // ServedCall.
  void End(const absl::Status& error) override;
  void Check(absl::Duration now) override;

 private:
  enum class Phase {
    kNew,  // no HELLO yet
    kOpen,
    kHalfClosed,  // sends what waits, takes no more
    kEnded,       // to be finished
  };
  // Segment and first element of a page: lower segments go first.
  using PageKey = std::pair<uint32_t, uint64_t>;

  absl::Status OnFrame(const Frame& frame);
  absl::Status OnHello(const Frame& frame);
  absl::Status OnSubscribe(const Frame& frame);
  absl::Status OnGradient(const Frame& frame);
  absl::Status CheckSender(const v1::FrameHeader& header) const;
  absl::StatusOr<std::shared_ptr<ParameterShard>> LockShard() const;
  // To be ended: forgets what waits and takes no more.
  void DropWaiting();
  // Why an open stream must end now, when nothing has moved for `idle`.
  absl::Status Fault(absl::Duration idle) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ParameterCallContext& context_;

  // Used on the queue's thread, and set there before the phase becomes kOpen.
  uint64_t num_frames_ = 0;
  uint64_t job_ = 0;
  uint32_t source_ = 0;
  std::string worker_;
  // Weak: a stream that is idle must not keep the memory of a job that has ended.
  std::weak_ptr<ParameterShard> shard_;

  mutable Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kNew;
  // Dropped when the stream has finished; then Send does nothing.
  std::shared_ptr<ServerStream> stream_ ABSL_GUARDED_BY(mutex_);
  std::map<PageKey, PageWeights> waiting_ ABSL_GUARDED_BY(mutex_);
  // Whether a message is on its way; the next one is asked for when it has gone through.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  // Changes whenever the client is seen to be alive: a frame of it, or a message that it lets
  // through. What Check saw of it last, and when.
  uint64_t progress_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t seen_progress_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Duration> seen_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_PARAMETER_STREAM_H_
