#ifndef SANGAM_WORKER_RPC_GRPC_PARAMETER_LINK_H_
#define SANGAM_WORKER_RPC_GRPC_PARAMETER_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/backoff.h"
#include "common/base/mutex.h"
#include "common/plan/page_map.h"
#include "common/plan/span.h"
#include "common/rpc/activity_count.h"
#include "common/rpc/completion_queue_thread.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "proto/plan.pb.h"
#include "proto/tensor.pb.h"
#include "worker/rpc/server_connection.h"
#include "worker/runtime/parameter_link.h"

namespace sangam {

// The parameter link over gRPC: a connection of its own to every server, raw messages, one thread
// that completes all of them and calls the receiver. Lost streams are opened again; since servers
// ignore what they have, every gradient counts once however often it is sent. Thread-safe.
class GrpcParameterLink final : public ParameterLink, private ConnectionOwner {
 public:
  struct Options {
    // How long a server may be without a working stream; then the link fails.
    absl::Duration connect_deadline = absl::Seconds(30);
    // Between two tries.
    Backoff::Options backoff;
  };

  // Errors: InvalidArgument  the plan contradicts itself or has no worker of this index
  static absl::StatusOr<std::unique_ptr<ParameterLink>> Create(const v1::Plan& plan,
                                                               uint32_t worker,
                                                               const Options& options);

  // As Close(0) when it was not called.
  ~GrpcParameterLink() override;

  absl::Status Start(const std::vector<uint32_t>& segments, uint64_t first_step,
                     WeightsReceiver* receiver) override;
  absl::Status PushPages(uint64_t step, uint32_t segment, uint32_t use, ShareSpan span,
                         uint64_t samples, const FloatBuffer& sum, PageSpan pages) override;
  absl::Status Close(absl::Duration deadline) override;

 private:
  enum class State { kNew, kOpen, kFailed, kClosed };

  GrpcParameterLink(const v1::Plan& plan, uint32_t worker, PageMap map, const Options& options);

  // ConnectionOwner.
  absl::Status OnWeights(const v1::FrameHeader& header, const SlicePayload& elements) override;
  void OnConnectionEnded(const absl::Status& status) override;

  ServerConnection::Options ConnectionOptions(uint32_t server) const;
  absl::Status CheckPush(uint32_t segment, uint32_t use, const FloatBuffer& sum) const;
  absl::Status CloseConnections(absl::Duration deadline);

  const Options options_;
  const PageMap map_;
  // Of every connection: job, generation and source; what it says in its HELLO; by index in the
  // plan.
  v1::FrameHeader sender_;
  v1::StreamHello hello_;
  std::vector<v1::ServerPlan> servers_;
  // Gradient frames of one page, use and step.
  size_t spans_ = 0;
  // Of each segment, wherever its blocks are computed: at least those of this worker.
  std::vector<uint32_t> uses_;

  // Set by Start, before any connection opens.
  WeightsReceiver* receiver_ = nullptr;
  std::vector<bool> subscribed_;  // by segment
  // By server of the plan; none where the server holds nothing that is wanted. Shared with their
  // pending operations.
  std::vector<std::shared_ptr<ServerConnection>> connections_;

  ActivityCount activities_;
  CompletionQueueThread thread_;

  // One Close at a time.
  Mutex close_mutex_;
  std::optional<absl::Status> closed_with_ ABSL_GUARDED_BY(close_mutex_);

  mutable Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kNew;
  // The first error that a connection ended with.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_WORKER_RPC_GRPC_PARAMETER_LINK_H_
