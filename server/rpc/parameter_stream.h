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
#include "common/rpc/accepted_stream.h"
#include "common/rpc/call_places.h"
#include "common/rpc/server_stream.h"
#include "common/tensor/frame_codec.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

// Finds the shard of a job; the same object for as long as the server holds the job.
// Errors: NotFound  the server does not hold the job
using ShardFinder = std::function<absl::StatusOr<std::shared_ptr<ParameterShard>>(uint64_t job)>;

// What the calls of a service share; outlives them.
struct ParameterCallContext : AcceptedStreamOptions {
  ShardFinder find_shard;
  // Of a worker's message.
  size_t max_message_bytes = 0;
  // Pages whose weights may wait for one client at once.
  size_t max_waiting_frames = 65536;
  // Of the calls of ReadWeights.
  CallPlaces* reads = nullptr;
  // How long a client may leave weights unread; then the call ends.
  absl::Duration stall_deadline = absl::Seconds(60);
};

// One worker's PushPull: checks its frames, hands them to the job's shard on the thread that
// received them, and sends it the weights that the shard publishes.
class ParameterStream final : public AcceptedStream,
                              public WeightsSink,
                              public std::enable_shared_from_this<ParameterStream> {
 public:
  // `context` must outlive the object.
  ParameterStream(const ParameterCallContext* context, std::shared_ptr<ServerStream> stream);

  // StreamHandler.
  std::optional<grpc::ByteBuffer> NextMessage() override;
  void OnHalfClosed() override;

  // WeightsSink: queues the weights. Those of the same page that still wait are replaced when they
  // are older. Holds the page's memory, copies nothing.
  void Send(const PageWeights& weights) override;

 private:
  // Segment and first element of a page: lower segments go first.
  using PageKey = std::pair<uint32_t, uint64_t>;

  // AcceptedStream.
  absl::Status OnNext(const grpc::ByteBuffer& message, bool first) override;
  void DropWaiting() override;
  absl::Status Fault(absl::Duration idle) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(const absl::Status& status) override;
  std::string LogFields() const override;

  absl::Status OnFrame(const Frame& frame, bool first);
  absl::Status OnHello(const Frame& frame);
  absl::Status OnSubscribe(const Frame& frame);
  absl::Status OnGradient(const Frame& frame);
  absl::Status CheckSender(const v1::FrameHeader& header) const;
  absl::StatusOr<std::shared_ptr<ParameterShard>> LockShard() const;

  const ParameterCallContext& context_;

  // Used on the queue's thread, and set there before the stream opens.
  uint64_t job_ = 0;
  uint32_t source_ = 0;
  std::string worker_;
  // Weak: a stream that is idle must not keep the memory of a job that has ended.
  std::weak_ptr<ParameterShard> shard_;

  std::map<PageKey, PageWeights> waiting_ ABSL_GUARDED_BY(mutex_);
  // Whether a message is on its way; the next one is asked for when it has gone through.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_PARAMETER_STREAM_H_
