#ifndef SANGAM_COMMON_RPC_SERVER_STREAM_H_
#define SANGAM_COMMON_RPC_SERVER_STREAM_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

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

// The server's end of one bidirectional stream of raw messages. Always one Read and at most one
// Write outstanding. Thread-safe, but for the parts that say otherwise.
//
// Shared: its pending operations hold it, so it lives until they have completed, which they do when
// the call ends. Use: make one, request a call with context() and io(), Begin when it was accepted.
class ServerStream final : public std::enable_shared_from_this<ServerStream>,
                           private WritePump::Port {
 public:
  using Io = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  static std::shared_ptr<ServerStream> Create();
  ServerStream(const ServerStream&) = delete;
  ServerStream& operator=(const ServerStream&) = delete;

  // For the request of a call only.
  grpc::ServerContext* context() { return &context_; }
  Io* io() { return &io_; }

  // The call was accepted. On the thread of its completion queue, once.
  void Begin(std::shared_ptr<StreamHandler> handler);

  // The handler's NextMessage may have something.
  // REQUIRES: Begin was called; so too for the others.
  void Wake() { pump_.Wake(); }

  // Ends the stream with this error as soon as the outstanding Write has completed; what else waits
  // is dropped. Without effect when the stream has ended in error already.
  void End(const absl::Status& error);

  // Breaks the call off, without a status for the client. For a client that does not read, so that
  // End cannot get through.
  void Cancel() { context_.TryCancel(); }

  // Of a call that was accepted.
  const grpc::ServerContext& context() const { return context_; }

  // "ipv4:1.2.3.4:5678", for messages.
  std::string peer() const { return context_.peer(); }

 private:
  ServerStream();

  void OnRead(bool ok);
  void OnWritten(bool ok) { pump_.OnWritten(ok); }
  void OnFinish(bool ok);

  std::optional<grpc::ByteBuffer> NextMessage() override { return handler_->NextMessage(); }
  void PostWrite(const grpc::ByteBuffer& message) override;
  void PostLast() override;

  grpc::ServerContext context_;
  Io io_{&context_};
  OperationTag<ServerStream> read_tag_{&ServerStream::OnRead};
  OperationTag<ServerStream> write_tag_{&ServerStream::OnWritten};
  OperationTag<ServerStream> finish_tag_{&ServerStream::OnFinish};
  WritePump pump_{this};

  // Set by Begin, dropped in OnFinish. Asked for messages only in between, because the pump asks no
  // more once it has posted the last operation.
  std::shared_ptr<StreamHandler> handler_;
  // Where a Read puts its message; used on the queue's thread.
  grpc::ByteBuffer incoming_;

  Mutex mutex_;
  // What the stream ends with, once that is decided; OK while it is only half-closed.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  // Set by PostLast, read when that operation has completed.
  absl::Status finished_with_;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_SERVER_STREAM_H_
