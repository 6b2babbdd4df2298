#include "common/rpc/server_stream.h"

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/stream_handler.h"
#include "common/rpc/write_pump.h"

namespace sangam {

ServerStream::ServerStream() = default;

std::shared_ptr<ServerStream> ServerStream::Create() {
  return std::shared_ptr<ServerStream>(new ServerStream);
}

void ServerStream::Begin(std::shared_ptr<StreamHandler> handler) {
  handler_ = std::move(handler);
  io_.Read(&incoming_, read_tag_.Arm(shared_from_this()));
  pump_.Open();
}

void ServerStream::End(const absl::Status& error) {
  {
    MutexLock lock(&mutex_);
    if (end_.has_value() && !end_->ok()) return;
    end_ = error;
  }
  pump_.Close(WritePump::Rest::kDrop);
}

void ServerStream::OnRead(bool ok) {
  bool ended;
  {
    MutexLock lock(&mutex_);
    ended = end_.has_value();
    // A Read fails when the client has half-closed and also when the call is broken; in the second
    // case nobody learns the status, and OnFinish is told so.
    if (!ok && !ended) end_ = absl::OkStatus();
  }
  // What came after the end counts no more.
  if (ended) return;
  if (!ok) {
    handler_->OnHalfClosed();
    pump_.Close(WritePump::Rest::kFlush);
    return;
  }
  // The next Read is posted first: gRPC puts the next message together meanwhile.
  grpc::ByteBuffer message;
  message.Swap(&incoming_);
  io_.Read(&incoming_, read_tag_.Arm(shared_from_this()));
  if (const absl::Status status = handler_->OnMessage(message); !status.ok()) End(status);
}

void ServerStream::PostWrite(const grpc::ByteBuffer& message) {
  io_.Write(message, write_tag_.Arm(shared_from_this()));
}

void ServerStream::PostLast() {
  {
    MutexLock lock(&mutex_);
    finished_with_ = *end_;
  }
  io_.Finish(ToGrpcStatus(finished_with_), finish_tag_.Arm(shared_from_this()));
}

void ServerStream::OnFinish(bool ok) {
  const std::shared_ptr<StreamHandler> handler = std::move(handler_);
  // The status of a broken call does not leave this process.
  const bool lost = !ok && finished_with_.ok();
  handler->OnFinished(lost ? absl::UnavailableError("the stream was lost") : finished_with_);
}

}  // namespace sangam
