#ifndef SANGAM_WORKER_RPC_SERVER_CONNECTION_H_
#define SANGAM_WORKER_RPC_SERVER_CONNECTION_H_

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

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
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"
#include "worker/rpc/gradient_ledger.h"

namespace sangam {

// What a connection tells its link; on the thread of the completion queue.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;

  // Weights that were wanted. An error ends the connection.
  virtual absl::Status OnWeights(const v1::FrameHeader& header, const SlicePayload& elements) = 0;

  // The connection is over and nothing comes after this. OK only after a Close.
  virtual void OnConnectionEnded(const absl::Status& status) = 0;
};

// A worker's way to one server: a stream that is opened again when it is lost. Each new stream says
// HELLO, subscribes to every page from the step that is wanted next, and sends again what the
// server has not answered; the server ignores what it has. Thread-safe; shared with its pending
// operations.
class ServerConnection final : public StreamHandler,
                               public std::enable_shared_from_this<ServerConnection> {
 public:
  struct Options {
    // Name and "host:port" of the server.
    std::string server;
    std::string address;
    uint64_t page_elements = 0;
    // Job, generation and source of every frame; nothing else is set.
    v1::FrameHeader sender;
    v1::StreamHello hello;
    // How long there may be no working stream. One works when weights have come by it, or when it
    // has stayed open for a second.
    absl::Duration connect_deadline = absl::Seconds(30);
    Backoff::Options backoff;
  };

  // `queue`, `activities` and `owner` must outlive the connection's end (OnConnectionEnded). An
  // activity is held from Open until then.
  ServerConnection(Options options, GradientLedger ledger, grpc::CompletionQueue* queue,
                   ActivityCount* activities, ConnectionOwner* owner);

  void Open();

  // Queues a gradient; Wake sends what is queued.
  // Errors: as GradientLedger::Add
  absl::Status Push(PageGradient gradient);
  void Wake();

  // Sends nothing more and half-closes; the server ends the stream. Without a stream the connection
  // ends at once.
  void Close();

  // Breaks everything off; the connection ends with `reason`.
  void Abandon(const absl::Status& reason);

  const std::string& server() const { return options_.server; }

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
  absl::Status OnFrame(const v1::FrameHeader& header, const SlicePayload& elements);
  void OnAlarm(bool ok);
  void End(const absl::Status& status);
  // "server 'name' at host:port".
  std::string Peer() const;

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::CompletionQueue* const queue_;
  ActivityCount* const activities_;
  ConnectionOwner* const owner_;
  OperationTag<ServerConnection> alarm_tag_{&ServerConnection::OnAlarm};

  Mutex mutex_;
  GradientLedger ledger_ ABSL_GUARDED_BY(mutex_);
  // None between two tries.
  std::shared_ptr<ClientStream> stream_ ABSL_GUARDED_BY(mutex_);
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // What the connection ends with whatever its stream ends with: a fault that we found, or the
  // reason of Abandon.
  std::optional<absl::Status> fault_ ABSL_GUARDED_BY(mutex_);

  // What the stream has to say before any gradient.
  bool hello_waits_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<v1::FrameHeader> subscriptions_ ABSL_GUARDED_BY(mutex_);

  // Tries, on the steady clock.
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  uint64_t tries_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration not_working_since_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  std::optional<absl::Duration> opened_at_ ABSL_GUARDED_BY(mutex_);
  bool weights_came_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_SERVER_CONNECTION_H_
