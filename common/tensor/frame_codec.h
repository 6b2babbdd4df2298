#ifndef SANGAM_COMMON_TENSOR_FRAME_CODEC_H_
#define SANGAM_COMMON_TENSOR_FRAME_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"

// The bytes of a TensorFrame (proto/tensor.proto); no other file knows them. In protobuf's
// encoding:
//
//   frame   = header unknown* [payload]
//   header  = tag of field 1, type LEN; length; that many bytes, a serialized FrameHeader
//   unknown = a field of any other number and any type; skipped
//   payload = tag of field 15, type LEN; length; that many bytes, the last of the message
//
// A sender puts a short prefix in front of memory that it does not touch; a receiver finds the
// payload where it lies. Protobuf itself would take the fields in any order and any number; with
// the header first and the payload last, one look at the first bytes tells where everything is.
//
// Pure; may be called on any thread.
namespace sangam {

// Bound of everything in front of the payload's first byte. (A header of ours has at most 130.)
inline constexpr size_t kMaxFramePrefixBytes = 4096;

// Longest payload: protobuf refuses longer fields.
inline constexpr size_t kMaxFramePayloadBytes = 0x7fffffff - kMaxFramePrefixBytes;

// A frame as it arrived; `payload` refers to the message's memory and keeps it alive.
struct Frame {
  v1::FrameHeader header;
  SlicePayload payload;
};

// What goes in front of the `payload_bytes` bytes of the payload. Without payload (0 bytes) the
// frame is complete.
// REQUIRES: payload_bytes <= kMaxFramePayloadBytes.
std::string EncodeFramePrefix(const v1::FrameHeader& header, size_t payload_bytes);

// Takes a message apart. The payload is not copied, whichever way `message` is cut into pieces.
// Errors: InvalidArgument  not a frame as above; names the byte, what was found there and what was
//                          expected
absl::StatusOr<Frame> DecodeFrame(const SlicePayload& message);

// The payload of a HELLO frame.
SlicePayload EncodeHello(const v1::StreamHello& hello);

// Errors: InvalidArgument  longer than kMaxFramePrefixBytes, or not a StreamHello
absl::StatusOr<v1::StreamHello> DecodeHello(const SlicePayload& payload);

}  // namespace sangam

#endif  // SANGAM_COMMON_TENSOR_FRAME_CODEC_H_
