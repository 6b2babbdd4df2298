#include "common/rpc/byte_buffer.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/tensor/slices.h"

namespace sangam {
namespace {

// Below this a received payload is copied; a quarter of gRPC's block.
constexpr size_t kCopiedPayloadBytes = 16 * 1024;

void ReleaseOwner(void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); }

SlicePayload Copied(const SlicePayload& payload) {
  auto bytes = std::make_shared<std::vector<uint8_t>>(payload.size());
  payload.CopyTo(bytes->data());
  const ByteSpan piece = {bytes->data(), bytes->size()};
  return SlicePayload({piece}, std::move(bytes));
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(const std::string& prefix, const SlicePayload& payload) {
  std::vector<grpc::Slice> slices;
  if (payload.size() <= kInlinePayloadBytes) {
    grpc::Slice slice(prefix.size() + payload.size());
    // A new slice is nobody else's yet, so its bytes may be written.
    uint8_t* bytes = const_cast<uint8_t*>(slice.begin());
    prefix.copy(reinterpret_cast<char*>(bytes), prefix.size());
    payload.CopyTo(bytes + prefix.size());
    return grpc::ByteBuffer(&slice, 1);
  }
  slices.reserve(1 + payload.pieces().size());
  slices.emplace_back(prefix);
  for (const ByteSpan& piece : payload.pieces()) {
    if (piece.size == 0) continue;
    // gRPC only reads from the slice; its constructor has no const form.
    slices.emplace_back(const_cast<uint8_t*>(piece.data), piece.size, &ReleaseOwner,
                        new std::shared_ptr<const void>(payload.owner()));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<SlicePayload> FromByteBuffer(const grpc::ByteBuffer& message) {
  if (!message.Valid()) return SlicePayload();
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (const grpc::Status status = message.Dump(slices.get()); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("message of ", message.Length(),
                     " bytes: cannot be decompressed: ", status.error_message()));
  }
  std::vector<ByteSpan> pieces;
  pieces.reserve(slices->size());
  // A short slice holds its bytes inside itself, so the pointers are good as long as the vector is.
  for (const grpc::Slice& slice : *slices) pieces.push_back({slice.begin(), slice.size()});
  return SlicePayload(std::move(pieces), std::move(slices));
}

SlicePayload WithoutPinnedBlocks(const SlicePayload& payload) {
  return payload.size() < kCopiedPayloadBytes ? Copied(payload) : payload;
}

}  // namespace sangam
