#ifndef SANGAM_WORKER_RPC_FLOW_STREAM_H_
#define SANGAM_WORKER_RPC_FLOW_STREAM_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/server_stream.h"
#include "common/rpc/stream_handler.h"
#include "common/tensor/frame_codec.h"
#include "worker/rpc/flow_registry.h"
#include "worker/runtime/flow_exchange.h"

namespace sangam {

// What the calls of a service share; outlives them.
struct FlowCallContext {
  const FlowRegistry* jobs = nullptr;
  CallRegistry* registry = nullptr;
  // Holds one activity for each call, from before it begins until it has finished.
  ActivityCount* activities = nullptr;

  // Of a worker's message.
  size_t max_message_bytes = 0;
  // From the beginning of a stream to its HELLO.
  absl::Duration hello_deadline = absl::Seconds(10);
  // How long a call that is to end waits for a worker that does not read; then it is broken off.
  absl::Duration end_grace = absl::Seconds(5);
};

// A stream that another worker has opened: hands its frames to the job's exchange on the thread
// that received them, and sends what the exchange has for that worker. Thread-safe; shared between
// its ServerStream, the registry and the exchange.
class FlowStream final : public StreamHandler,
                         public FlowCarrier,
                         public ServedCall,
                         public std::enable_shared_from_this<FlowStream> {
 public:
  // `context` must outlive the object.
  FlowStream(const FlowCallContext* context, std::shared_ptr<ServerStream> stream);

  // StreamHandler.
  absl::Status OnMessage(const grpc::ByteBuffer& message) override;
  std::optional<grpc::ByteBuffer> NextMessage() override;
  void OnHalfClosed() override;
  void OnFinished(const absl::Status& status) override;

  // FlowCarrier.
  void Wake() override;

  // FlowCarrier and ServedCall.
  void End(const absl::Status& error) override;

  // ServedCall.
  void Check(absl::Duration now) override;

 private:
  enum class Phase {
    kNew,  // no HELLO yet
    kOpen,
    kEnding,  // half-closed, or to be finished
  };
  // The job's part of this stream; none before the HELLO, or when the job is gone.
  struct Place {
    std::shared_ptr<FlowExchange> exchange;
    size_t side = 0;
    uint64_t number = 0;
  };

  absl::Status OnHello(const Frame& frame);
  Place place() const;
  // No frames in or out from now on.
  void SetEnding();

  const FlowCallContext& context_;
  uint64_t num_frames_ = 0;  // used on the queue's thread

  mutable Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kNew;
  // Dropped when the stream has finished.
  std::shared_ptr<ServerStream> stream_ ABSL_GUARDED_BY(mutex_);
  // Weak: a stream that is idle must not keep the memory of a job that has ended.
  std::weak_ptr<FlowExchange> exchange_ ABSL_GUARDED_BY(mutex_);
  size_t side_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string worker_ ABSL_GUARDED_BY(mutex_);
  // Since when, on the steady clock, the phase is what Check saw last.
  Phase seen_phase_ ABSL_GUARDED_BY(mutex_) = Phase::kNew;
  std::optional<absl::Duration> seen_at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_FLOW_STREAM_H_
