#ifndef SANGAM_SERVER_RPC_PROTO_MESSAGE_H_
#define SANGAM_SERVER_RPC_PROTO_MESSAGE_H_

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

// Protobuf messages on raw streams.
namespace sangam {

// Errors: InvalidArgument  not such a message
template <typename Message>
absl::StatusOr<Message> ParseMessage(const grpc::ByteBuffer& buffer) {
  Message message;
  grpc::ByteBuffer copy = buffer;  // of the handles; parsing empties it
  const grpc::Status status = grpc::SerializationTraits<Message>::Deserialize(&copy, &message);
  if (status.ok()) return message;
  return absl::InvalidArgumentError(absl::StrCat("found ", buffer.Length(), " bytes that are no ",
                                                 Message::descriptor()->full_name()));
}

template <typename Message>
grpc::ByteBuffer SerializeMessage(const Message& message) {
  grpc::ByteBuffer buffer;
  bool owned = false;
  grpc::SerializationTraits<Message>::Serialize(message, &buffer, &owned);
  return buffer;
}

}  // namespace sangam

#endif  // SANGAM_SERVER_RPC_PROTO_MESSAGE_H_
