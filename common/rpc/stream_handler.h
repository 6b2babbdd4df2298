#ifndef SANGAM_COMMON_RPC_STREAM_HANDLER_H_
#define SANGAM_COMMON_RPC_STREAM_HANDLER_H_

#include <grpcpp/support/byte_buffer.h>

#include <optional>

#include "absl/status/status.h"

namespace sangam {

// What a raw stream (ServerStream, ClientStream) asks and tells the one who uses it. The stream
// holds its handler until OnFinished has returned.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;

  // The call has reached the server. Only a client's stream says so; on the queue's thread, before
  // the first message.
  virtual void OnOpened() {}

  // A message has come. On the thread of the stream's completion queue, one at a time. An error
  // ends the stream: a server's with this status, a client's by cancelling it.
  virtual absl::Status OnMessage(const grpc::ByteBuffer& message) = 0;

  // The next message to send, or nothing: then the stream asks again after a Wake. Here the handler
  // decides the order of what waits, and the bound. On any thread, one call at a time, and at the
  // same time as the other calls.
  virtual std::optional<grpc::ByteBuffer> NextMessage() = 0;

  // The peer sends no more messages. On the queue's thread, once, and never after OnFinished. A
  // server's stream then sends what NextMessage still has and ends with OK.
  virtual void OnHalfClosed() {}

  // The stream is over, and this is the last call. `status`: a client learns how the call ended; a
  // server, what it ended the call with, or UNAVAILABLE when it meant to end it with OK but the
  // stream was lost. On the queue's thread.
  virtual void OnFinished(const absl::Status& status) = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_STREAM_HANDLER_H_
