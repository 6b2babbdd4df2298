#ifndef SANGAM_COMMON_RPC_CLIENT_STREAM_H_
#define SANGAM_COMMON_RPC_CLIENT_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/stream_handler.h"
#include "common/rpc/write_pump.h"

namespace sangam {

// The client's end of one bidirectional stream of raw messages. Always one Read and at most one
// Write outstanding. Thread-safe.
//
// Shared: its pending operations hold it, so it lives until they have completed, which they do when
// the call ends. OnFinished comes in any case, also when no connection could be made.
class ClientStream final : public std::enable_shared_from_this<ClientStream>,
                           private WritePump::Port {
 public:
  // Starts a call of `method` ("/package.Service/Method") and returns at once. A call on a channel
  // that cannot connect fails with UNAVAILABLE; it does not wait for a better time.
  // REQUIRES: `queue` has a CompletionQueueThread.
  static std::shared_ptr<ClientStream> Start(const std::shared_ptr<grpc::Channel>& channel,
                                             const std::string& method,
                                             grpc::CompletionQueue* queue,
                                             std::shared_ptr<StreamHandler> handler);
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  // The handler's NextMessage may have something.
  void Wake() { pump_.Wake(); }

  // Sends no more messages; the call goes on until the server ends it.
  void HalfClose() { pump_.Close(WritePump::Rest::kDrop); }

  // Sends what NextMessage still has, then no more; the call goes on until the server ends it.
  void FlushAndHalfClose() { pump_.Close(WritePump::Rest::kFlush); }

  // Breaks the call off. OnFinished reports `reason`, unless the call has ended before.
  void Cancel(const absl::Status& reason);

 private:
  explicit ClientStream(std::shared_ptr<StreamHandler> handler);

  void OnStarted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok) { pump_.OnWritten(ok); }
  void OnHalfClosed(bool ok);
  void OnFinish(bool ok);
  void EndReads();
  void FinishWhenBothHalvesEnded();

  std::optional<grpc::ByteBuffer> NextMessage() override { return handler_->NextMessage(); }
  void PostWrite(const grpc::ByteBuffer& message) override;
  void PostLast() override;

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> io_;
  OperationTag<ClientStream> start_tag_{&ClientStream::OnStarted};
  OperationTag<ClientStream> read_tag_{&ClientStream::OnRead};
  OperationTag<ClientStream> write_tag_{&ClientStream::OnWritten};
  OperationTag<ClientStream> half_close_tag_{&ClientStream::OnHalfClosed};
  OperationTag<ClientStream> finish_tag_{&ClientStream::OnFinish};
  WritePump pump_{this};

  // Dropped in OnFinish. Asked for messages only before, because the pump asks no more once it has
  // posted the last operation.
  std::shared_ptr<StreamHandler> handler_;
  // Where operations put their results; used on the queue's thread.
  grpc::ByteBuffer incoming_;
  grpc::Status status_;

  Mutex mutex_;
  // gRPC wants Finish to come when both halves of the stream have come to rest.
  bool reads_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool writes_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finish_posted_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> cancelled_with_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_CLIENT_STREAM_H_
