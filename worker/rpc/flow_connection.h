#ifndef SANGAM_WORKER_RPC_FLOW_CONNECTION_H_
#define SANGAM_WORKER_RPC_FLOW_CONNECTION_H_

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
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
#include "worker/runtime/flow_exchange.h"

namespace sangam {

// This worker's way to one that it sends activations to: a stream that is opened again when it is
// lost, until it has ended in order. When the connection gives up before Close or End, the exchange
// fails. Thread-safe; shared with its pending operations.
class FlowConnection final : public StreamHandler,
                             public FlowCarrier,
                             public std::enable_shared_from_this<FlowConnection> {
 public:
  struct Options {
    // How long there may be no working stream while the other worker is needed. One works when a
    // frame has come by it, or when it has stayed open for a second.
    absl::Duration connect_deadline = absl::Seconds(30);
    Backoff::Options backoff;
  };

  // `queue` and `activities` must outlive the connection's end. An activity is held from Open until
  // then.
  FlowConnection(const Options& options, std::shared_ptr<FlowExchange> exchange, size_t side,
                 grpc::CompletionQueue* queue, ActivityCount* activities);

  void Open();

  // Sends what waits and half-closes; the other worker ends the stream. A stream that is lost
  // before that is opened again, for the same.
  void Close();

  // What the connection has ended with after Close.
  absl::Status closed_with() const;

  // FlowCarrier. End breaks everything off for `reason`.
  void Wake() override;
  void End(const absl::Status& reason) override;

  // StreamHandler.
  void OnOpened() override;
  absl::Status OnMessage(const grpc::ByteBuffer& message) override;
  std::optional<grpc::ByteBuffer> NextMessage() override;
  void OnFinished(const absl::Status& status) override;

 private:
  // Errors: as OpenStream of the exchange
  absl::Status StartStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What to do after a stream was lost with `status`: OK when an alarm for the next try was set,
  // else what the connection ends with.
  absl::Status TryAgain(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnAlarm(bool ok);
  void Finish(const absl::Status& status);

  const Options options_;
  const std::shared_ptr<FlowExchange> exchange_;
  const size_t side_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::CompletionQueue* const queue_;
  ActivityCount* const activities_;
  OperationTag<FlowConnection> alarm_tag_{&FlowConnection::OnAlarm};

  mutable Mutex mutex_;
  // None between two tries.
  std::shared_ptr<ClientStream> stream_ ABSL_GUARDED_BY(mutex_);
  // As the exchange calls the stream.
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool hello_waits_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // What the connection ends with whatever its stream ends with.
  std::optional<absl::Status> fault_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_with_ ABSL_GUARDED_BY(mutex_);

  // Tries, on the steady clock.
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  uint64_t tries_ ABSL_GUARDED_BY(mutex_) = 0;
  bool worked_ ABSL_GUARDED_BY(mutex_) = false;  // one stream did
  absl::Duration not_working_since_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  std::optional<absl::Duration> opened_at_ ABSL_GUARDED_BY(mutex_);
  bool frame_came_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_FLOW_CONNECTION_H_
