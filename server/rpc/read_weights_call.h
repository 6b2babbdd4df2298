#ifndef SANGAM_SERVER_RPC_READ_WEIGHTS_CALL_H_
#define SANGAM_SERVER_RPC_READ_WEIGHTS_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/rpc/call_places.h"
#include "common/rpc/call_registry.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/write_pump.h"
#include "server/rpc/parameter_stream.h"
#include "server/runtime/parameter_shard.h"

namespace sangam {

// One ReadWeights or ReadState: the newest weights of every page, or the snapshot of a step, one
// page a message, as slices of the pages. A snapshot is let go when the client has read it.
// Shared: its pending operations hold it.
class ReadWeightsCall final : public ServedCall,
                              public std::enable_shared_from_this<ReadWeightsCall>,
                              private WritePump::Port {
 public:
  using Io = grpc::ServerAsyncWriter<grpc::ByteBuffer>;

  enum class What { kWeights, kState };

  // `context` must outlive the object.
  ReadWeightsCall(const ParameterCallContext* context, What what)
      : call_context_(*context), what_(what) {}

  // For the request of a call only.
  grpc::ServerContext* context() { return &context_; }
  grpc::ByteBuffer* request() { return &request_; }
  Io* io() { return &io_; }

  // The call was accepted. On the thread of its completion queue, once. When `admitted` is an error
  // the call ends with it.
  void Begin(const absl::Status& admitted);

  // ServedCall.
  void End(const absl::Status& error) override;
  void Check(absl::Duration now) override;

 private:
  absl::Status FindPages();
  void OnWritten(bool ok);
  void OnFinish(bool ok);

  std::optional<grpc::ByteBuffer> NextMessage() override;
  void PostWrite(const grpc::ByteBuffer& message) override;
  void PostLast() override;

  const ParameterCallContext& call_context_;
  const What what_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  Io io_{&context_};
  OperationTag<ReadWeightsCall> write_tag_{&ReadWeightsCall::OnWritten};
  OperationTag<ReadWeightsCall> finish_tag_{&ReadWeightsCall::OnFinish};
  WritePump pump_{this};

  // Of weights that are being read. Set by Begin.
  std::optional<CallPlaces::Place> place_;
  // Of a snapshot that is being read, and its step. Set by Begin.
  std::shared_ptr<ParameterShard> state_of_;
  uint64_t step_ = 0;

  // Used by the pump: one call at a time.
  std::vector<PageWeights> pages_;
  size_t next_page_ = 0;

  Mutex mutex_;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  // Messages that the client has let through. What Check saw of it last, and when.
  uint64_t progress_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t seen_progress_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Duration> seen_at_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_READ_WEIGHTS_CALL_H_
