#ifndef SANGAM_COMMON_RPC_BYTE_BUFFER_H_
#define SANGAM_COMMON_RPC_BYTE_BUFFER_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/slices.h"

// Between the slices of tensors and the messages of gRPC, without copying.
namespace sangam {

// A payload of at most this many bytes is copied behind its prefix: one small slice costs less than
// a shared one.
inline constexpr size_t kInlinePayloadBytes = 1024;

// The message `prefix` followed by `payload`. The payload's memory is not copied: gRPC's slices
// refer to it and each holds the payload's owner. They let go of it, on any thread of gRPC, when
// the transport has sent them. That may be after the completion of the Write, so a completed Write
// does not make the memory free; only the owner's count of holders tells.
grpc::ByteBuffer ToByteBuffer(const std::string& prefix, const SlicePayload& payload);

// The bytes of a received message, where gRPC put them. They stay alive as long as the result (or a
// part of it) does.
// Errors: InvalidArgument  the message claims to be compressed and cannot be decompressed
absl::StatusOr<SlicePayload> FromByteBuffer(const grpc::ByteBuffer& message);

// The same bytes, copied when there are few of them: every slice of a received message, however
// short, keeps a block of 64 KiB alive. For whoever parks payloads.
SlicePayload WithoutPinnedBlocks(const SlicePayload& payload);

}  // namespace sangam

#endif  // SANGAM_COMMON_RPC_BYTE_BUFFER_H_
