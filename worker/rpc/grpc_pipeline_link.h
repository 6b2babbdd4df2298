#ifndef SANGAM_WORKER_RPC_GRPC_PIPELINE_LINK_H_
#define SANGAM_WORKER_RPC_GRPC_PIPELINE_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/backoff.h"
#include "common/base/mutex.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/completion_queue_thread.h"
#include "common/tensor/buffer.h"
#include "worker/rpc/flow_connection.h"
#include "worker/rpc/flow_registry.h"
#include "worker/runtime/flow_exchange.h"
#include "worker/runtime/pipeline_link.h"

namespace sangam {

// The pipeline link over gRPC: a stream to every worker that it sends activations to, and through
// the registry one from every worker that sends activations here. From its making on it takes in
// what others send; one thread completes what it sends. Lost streams are opened again. Thread-safe.
class GrpcPipelineLink final : public PipelineLink {
 public:
  struct Options {
    // How long another worker may be without a working stream while it is needed; then the link
    // fails.
    absl::Duration connect_deadline = absl::Seconds(30);
    // Between two tries.
    Backoff::Options backoff;
  };

  // `registry` must outlive the link.
  // Errors: InvalidArgument    the plan contradicts itself or has no worker of this index
  //         ResourceExhausted  the memory of the tensors cannot be had
  //         AlreadyExists      a link of this job is registered
  static absl::StatusOr<std::unique_ptr<PipelineLink>> Create(
      const PipelineLinkOptions& link_options, FlowRegistry* registry, const Options& options);

  // As Close(0) when it was not called.
  ~GrpcPipelineLink() override;

  // PipelineLink.
  absl::Status Start(std::function<void(const absl::Status&)> on_failure) override;
  absl::StatusOr<FloatBuffer> Reserve(uint32_t lane, uint32_t boundary, FlowDirection direction,
                                      absl::Duration stall_limit) override;
  absl::Status Send(uint32_t lane, const FlowTag& tag, FlowShape shape,
                    FloatBuffer elements) override;
  absl::StatusOr<FloatBuffer> Receive(uint32_t lane, const FlowTag& tag, FlowShape shape,
                                      absl::Duration stall_limit) override;
  void Stop() override;
  void Fail(const absl::Status& reason) override;
  absl::Status Close(absl::Duration deadline) override;

 private:
  GrpcPipelineLink(std::shared_ptr<FlowExchange> exchange, FlowRegistry* registry,
                   const Options& options);

  // Until the exchange has ended: looks for workers that are out of reach. Then reports a failure.
  void Watch();
  absl::Status CloseStreams(absl::Duration deadline);

  const std::shared_ptr<FlowExchange> exchange_;
  FlowRegistry* const registry_;
  const Options options_;

  ActivityCount activities_;
  CompletionQueueThread thread_;

  // Start and Close, one at a time. What they set is used by nobody else but for on_failure_, by
  // the watch.
  Mutex mutex_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> closed_with_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<FlowConnection>> connections_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const absl::Status&)> on_failure_;
  std::thread watch_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_GRPC_PIPELINE_LINK_H_
