#include "common/rpc/client_stream.h"

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/stream_handler.h"
#include "common/rpc/write_pump.h"

namespace sangam {

ClientStream::ClientStream(std::shared_ptr<StreamHandler> handler) : handler_(std::move(handler)) {}

std::shared_ptr<ClientStream> ClientStream::Start(const std::shared_ptr<grpc::Channel>& channel,
                                                  const std::string& method,
                                                  grpc::CompletionQueue* queue,
                                                  std::shared_ptr<StreamHandler> handler) {
  std::shared_ptr<ClientStream> stream(new ClientStream(std::move(handler)));
  stream->io_ = grpc::GenericStub(channel).PrepareCall(&stream->context_, method, queue);
  stream->io_->StartCall(stream->start_tag_.Arm(stream));
  return stream;
}

void ClientStream::Cancel(const absl::Status& reason) {
  {
    MutexLock lock(&mutex_);
    if (reads_ended_) return;
    if (!cancelled_with_.has_value()) cancelled_with_ = reason;
  }
  context_.TryCancel();
}

void ClientStream::OnStarted(bool ok) {
  if (ok) {
    handler_->OnOpened();
    io_->Read(&incoming_, read_tag_.Arm(shared_from_this()));
  } else {
    EndReads();
  }
  pump_.Open();
}

void ClientStream::OnRead(bool ok) {
  if (!ok) {
    EndReads();
    return;
  }
  bool cancelled;
  {
    MutexLock lock(&mutex_);
    cancelled = cancelled_with_.has_value();
  }
  // The next Read is posted first: gRPC puts the next message together meanwhile. It is also how
  // the end of a cancelled call is learnt.
  grpc::ByteBuffer message;
  message.Swap(&incoming_);
  io_->Read(&incoming_, read_tag_.Arm(shared_from_this()));
  if (cancelled) return;
  if (const absl::Status status = handler_->OnMessage(message); !status.ok()) Cancel(status);
}

void ClientStream::OnHalfClosed(bool /*ok*/) {
  {
    MutexLock lock(&mutex_);
    writes_ended_ = true;
  }
  FinishWhenBothHalvesEnded();
}

void ClientStream::EndReads() {
  {
    MutexLock lock(&mutex_);
    reads_ended_ = true;
  }
  pump_.Close(WritePump::Rest::kDrop);
  FinishWhenBothHalvesEnded();
}

void ClientStream::FinishWhenBothHalvesEnded() {
  {
    MutexLock lock(&mutex_);
    if (!reads_ended_ || !writes_ended_ || finish_posted_) return;
    finish_posted_ = true;
  }
  io_->Finish(&status_, finish_tag_.Arm(shared_from_this()));
}

void ClientStream::PostWrite(const grpc::ByteBuffer& message) {
  io_->Write(message, write_tag_.Arm(shared_from_this()));
}

void ClientStream::PostLast() {
  bool ended;
  {
    MutexLock lock(&mutex_);
    // Nobody is left to hear of a half-close when the call is over.
    writes_ended_ = reads_ended_;
    ended = reads_ended_;
  }
  if (ended) {
    FinishWhenBothHalvesEnded();
  } else {
    io_->WritesDone(half_close_tag_.Arm(shared_from_this()));
  }
}

void ClientStream::OnFinish(bool /*ok*/) {
  absl::Status status = FromGrpcStatus(status_);
  {
    MutexLock lock(&mutex_);
    if (cancelled_with_.has_value()) status = *cancelled_with_;
  }
  const std::shared_ptr<StreamHandler> handler = std::move(handler_);
  handler->OnFinished(status);
}

}  // namespace sangam
