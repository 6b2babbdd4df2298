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
#include "common/rpc/accepted_stream.h"
#include "common/rpc/server_stream.h"
#include "common/tensor/frame_codec.h"
#include "worker/rpc/flow_registry.h"
#include "worker/runtime/flow_exchange.h"

namespace sangam {

// What the calls of a service share; outlives them.
struct FlowCallContext : AcceptedStreamOptions {
  const FlowRegistry* jobs = nullptr;
  // Of a worker's message.
  size_t max_message_bytes = 0;
};

// A stream that another worker has opened: hands its frames to the job's exchange on the thread
// that received them, and sends what the exchange has for that worker.
class FlowStream final : public AcceptedStream,
                         public FlowCarrier,
                         public std::enable_shared_from_this<FlowStream> {
 public:
  // `context` must outlive the object.
  FlowStream(const FlowCallContext* context, std::shared_ptr<ServerStream> stream);

  // StreamHandler.
  std::optional<grpc::ByteBuffer> NextMessage() override;

  // FlowCarrier; End is ServedCall's too.
  void Wake() override { WakeStream(); }
  void End(const absl::Status& error) override { AcceptedStream::End(error); }

 private:
  // The job's part of this stream; none before the HELLO, or when the job is gone.
  struct Place {
    std::shared_ptr<FlowExchange> exchange;
    size_t side = 0;
    uint64_t number = 0;
  };

  // AcceptedStream.
  absl::Status OnNext(const grpc::ByteBuffer& message, bool first) override;
  void Leave(const absl::Status& status) override;
  std::string LogFields() const override;

  absl::Status OnHello(const Frame& frame);
  Place place() const;

  const FlowCallContext& context_;

  // Weak: a stream that is idle must not keep the memory of a job that has ended.
  std::weak_ptr<FlowExchange> exchange_ ABSL_GUARDED_BY(mutex_);
  size_t side_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string worker_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_FLOW_STREAM_H_
