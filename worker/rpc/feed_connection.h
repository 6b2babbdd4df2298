#ifndef SANGAM_WORKER_RPC_FEED_CONNECTION_H_
#define SANGAM_WORKER_RPC_FEED_CONNECTION_H_

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/backoff.h"
#include "common/base/mutex.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/stream_handler.h"
#include "common/tensor/frame_codec.h"
#include "proto/tensor.pb.h"
#include "worker/rpc/batch_assembly.h"

namespace sangam {

// What a connection tells its owner; on the thread of the completion queue.
class FeedOwner {
 public:
  virtual ~FeedOwner() = default;

  // A request's answer is complete, in its buffer.
  virtual void OnAnswered(const BatchAssembly& answer) = 0;

  // The connection is over and nothing comes after this. OK only after a Close.
  virtual void OnFeedEnded(const absl::Status& status) = 0;
};

// A worker's way to the coordinator's samples: a stream that is opened again when it is lost. Each
// new stream says HELLO and asks again for what was not answered. Answers come in the order of the
// requests. Thread-safe; shared with its pending operations.
class FeedConnection final : public StreamHandler,
                             public std::enable_shared_from_this<FeedConnection> {
 public:
  struct Options {
    std::string address;  // "host:port" of the coordinator
    // Job, generation and source of every frame; nothing else is set.
    v1::FrameHeader sender;
    v1::StreamHello hello;
    // Requests that may be unanswered; the protocol allows 64.
    size_t max_unanswered = 64;
    // How long there may be no working stream. One works when an answer has come by it, or when it
    // has stayed open for a second.
    absl::Duration connect_deadline = absl::Seconds(30);
    Backoff::Options backoff;
  };

  // `queue`, `activities` and `owner` must outlive the connection's end (OnFeedEnded). An activity
  // is held from Open until then.
  FeedConnection(Options options, grpc::CompletionQueue* queue, ActivityCount* activities,
                 FeedOwner* owner);

  void Open();

  // Asks for a batch; waits while as many as allowed are unanswered. False: the connection is over,
  // or closing.
  bool Ask(BatchAssembly request);

  // Half-closes; the coordinator ends the stream. Without a stream the connection ends at once.
  void Close();

  // Breaks everything off; the connection ends with `reason`.
  void Abandon(const absl::Status& reason);

  // StreamHandler.
  void OnOpened() override;
  absl::Status OnMessage(const grpc::ByteBuffer& message) override;
  std::optional<grpc::ByteBuffer> NextMessage() override;
  void OnFinished(const absl::Status& status) override;

 private:
  void StartStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What to do after a stream has ended with `status`: OK when an alarm for the next try was set,
  // else what the connection ends with.
  absl::Status TryAgain(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnFrame(const Frame& frame);
  void OnAlarm(bool ok);
  void End(const absl::Status& status);
  // "the coordinator at host:port".
  std::string Peer() const;

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::CompletionQueue* const queue_;
  ActivityCount* const activities_;
  FeedOwner* const owner_;
  OperationTag<FeedConnection> alarm_tag_{&FeedConnection::OnAlarm};

  Mutex mutex_;
  CondVar room_;  // fewer are unanswered, or the connection closes
  // Unanswered, oldest first; the first `sent_` of them were sent on the present stream. The front
  // is put together on the queue's thread, without the lock: no other thread touches or removes it.
  std::deque<BatchAssembly> requests_ ABSL_GUARDED_BY(mutex_);
  size_t sent_ ABSL_GUARDED_BY(mutex_) = 0;
  // None between two tries.
  std::shared_ptr<ClientStream> stream_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  bool hello_waits_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // What the connection ends with whatever its stream ends with: a fault that we found, or the
  // reason of Abandon.
  std::optional<absl::Status> fault_ ABSL_GUARDED_BY(mutex_);

  // Tries, on the steady clock.
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  uint64_t tries_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration not_working_since_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  std::optional<absl::Duration> opened_at_ ABSL_GUARDED_BY(mutex_);
  bool answer_came_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_FEED_CONNECTION_H_
