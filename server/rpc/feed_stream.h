#ifndef SANGAM_SERVER_RPC_FEED_STREAM_H_
#define SANGAM_SERVER_RPC_FEED_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
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
#include "common/base/mutex.h"
#include "common/data/batch_id.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/stream_handler.h"
#include "common/tensor/buffer.h"
#include "common/tensor/frame_codec.h"
#include "proto/tensor.pb.h"
#include "server/runtime/served_data.h"

namespace sangam {

// Finds the data of a job; another object for each generation.
// Errors: NotFound  the coordinator serves no data of the job
using ServedJobFinder =
    std::function<absl::StatusOr<std::shared_ptr<const ServedJob>>(uint64_t job)>;

// What the calls of a service share; outlives them.
struct FeedContext {
  ServedJobFinder find_job;
  CallRegistry* registry = nullptr;
  // Holds one activity for each call, from before it begins until it has finished.
  ActivityCount* activities = nullptr;

  // Of a worker's message: a HELLO or a request.
  size_t max_message_bytes = size_t{64} * 1024;
  // Requests of one worker that may be unanswered.
  size_t max_requests = 64;
  // Elements of one message.
  uint64_t piece_elements = 0;
  // From the beginning of a stream to its HELLO.
  absl::Duration hello_deadline = absl::Seconds(10);
  // How long a worker may leave samples unread; then the call ends.
  absl::Duration stall_deadline = absl::Seconds(60);
  // How long a call that is to end waits for a worker that does not read; then it is broken off.
  absl::Duration end_grace = absl::Seconds(5);
};

// One worker's Feed: checks its requests and answers them in their order, each when the stream has
// room for it: samples are read on the thread that sends them, so no more than one batch is held.
// Any error ends this stream and nothing else. Thread-safe; shared between its ServerStream and the
// registry.
class FeedStream final : public StreamHandler, public ServedCall {
 public:
  // `context` must outlive the object.
  FeedStream(const FeedContext* context, std::shared_ptr<ServerStream> stream);

  // StreamHandler.
  absl::Status OnMessage(const grpc::ByteBuffer& message) override;
  std::optional<grpc::ByteBuffer> NextMessage() override;
  void OnHalfClosed() override;
  void OnFinished(const absl::Status& status) override;

  // ServedCall.
  void End(const absl::Status& error) override;
  void Check(absl::Duration now) override;

 private:
  enum class Phase {
    kNew,  // no HELLO yet
    kOpen,
    kHalfClosed,  // answers what waits, takes no more
    kEnded,       // to be finished
  };
  // The answer to a request, as far as it is not sent.
  struct Answer {
    BatchId id;
    uint64_t rows = 0;
    uint64_t input_elements = 0;
    uint64_t labels_per_sample = 0;
    FloatBuffer inputs;
    std::shared_ptr<uint32_t[]> labels;
    bool sends_inputs = false;  // or else labels
    uint64_t sent = 0;          // elements of them
  };

  absl::Status OnFrame(const Frame& frame);
  absl::Status OnHello(const Frame& frame);
  absl::Status OnRequest(const Frame& frame);
  // The job that the HELLO was for.
  // Errors: NotFound, Aborted  it is served no more, or of another generation
  absl::StatusOr<std::shared_ptr<const ServedJob>> LockJob() const;

  absl::Status Read(const BatchId& id);
  // REQUIRES: an answer is under way.
  grpc::ByteBuffer NextPiece();

  // To be ended: forgets what waits and takes no more.
  void DropRequests();
  // Why an open stream must end now, when nothing has moved for `idle`.
  absl::Status Fault(absl::Duration idle) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FeedContext& context_;

  // Used on the queue's thread, and set there before the phase becomes kOpen.
  uint64_t num_frames_ = 0;
  uint64_t job_ = 0;
  uint64_t generation_ = 0;
  uint32_t source_ = 0;
  bool wants_inputs_ = false;
  bool wants_labels_ = false;
  std::string worker_;
  // Weak: a stream that is idle must not keep the memory of a job that has ended.
  std::weak_ptr<const ServedJob> served_;

  // Used by NextMessage, one call at a time.
  std::optional<Answer> answer_;

  mutable Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kNew;
  // Dropped when the stream has finished.
  std::shared_ptr<ServerStream> stream_ ABSL_GUARDED_BY(mutex_);
  std::deque<BatchId> requests_ ABSL_GUARDED_BY(mutex_);
  // Requests whose answer has not left completely: those that wait, and the one under way.
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  // Whether a message is on its way; the next one is asked for when it has gone through.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  // Changes whenever the worker is seen to be alive: a frame of it, or a message that it lets
  // through. What Check saw of it last, and when.
  uint64_t progress_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t seen_progress_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Duration> seen_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_FEED_STREAM_H_
