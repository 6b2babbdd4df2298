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
#include "common/data/batch_id.h"
#include "common/rpc/accepted_stream.h"
#include "common/rpc/server_stream.h"
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
struct FeedContext : AcceptedStreamOptions {
  ServedJobFinder find_job;

  // Of a worker's message: a HELLO or a request.
  size_t max_message_bytes = size_t{64} * 1024;
  // Requests of one worker that may be unanswered.
  size_t max_requests = 64;
  // Elements of one message.
  uint64_t piece_elements = 0;
  // How long a worker may leave samples unread; then the call ends.
  absl::Duration stall_deadline = absl::Seconds(60);
};

// One worker's Feed: checks its requests and answers them in their order, each when the stream has
// room for it: samples are read on the thread that sends them, so no more than one batch is held.
class FeedStream final : public AcceptedStream {
 public:
  // `context` must outlive the object.
  FeedStream(const FeedContext* context, std::shared_ptr<ServerStream> stream);

  // StreamHandler.
  std::optional<grpc::ByteBuffer> NextMessage() override;

 private:
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

  // AcceptedStream.
  absl::Status OnNext(const grpc::ByteBuffer& message, bool first) override;
  void DropWaiting() override;
  absl::Status Fault(absl::Duration idle) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string LogFields() const override;

  absl::Status OnHello(const Frame& frame);
  absl::Status OnRequest(const Frame& frame);
  // The job that the HELLO was for.
  // Errors: NotFound, Aborted  it is served no more, or of another generation
  absl::StatusOr<std::shared_ptr<const ServedJob>> LockJob() const;

  absl::Status Read(const BatchId& id);
  // REQUIRES: an answer is under way.
  grpc::ByteBuffer NextPiece();

  const FeedContext& context_;

  // Used on the queue's thread, and set there before the stream opens.
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

  std::deque<BatchId> requests_ ABSL_GUARDED_BY(mutex_);
  // Requests whose answer has not left completely: those that wait, and the one under way.
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  // Whether a message is on its way; the next one is asked for when it has gone through.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_FEED_STREAM_H_
