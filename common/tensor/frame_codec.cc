#include "common/tensor/frame_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/tensor/slices.h"
#include "proto/tensor.pb.h"

namespace sangam {
namespace {

// Protobuf's wire types. 6 and 7 do not exist.
enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kGroupBegin = 3,
  kGroupEnd = 4,
  kFixed32 = 5,
};

constexpr uint32_t kHeaderField = 1;
constexpr uint32_t kPayloadField = 15;

// As deep as protobuf's own parser goes.
constexpr size_t kMaxGroupDepth = 100;

// Tags and lengths have 32 bits, other varints 64.
constexpr int kMaxVarint32Bytes = 5;
constexpr int kMaxVarint64Bytes = 10;

constexpr uint32_t MakeTag(uint32_t field, WireType type) { return field << 3 | type; }
constexpr uint32_t FieldOf(uint32_t tag) { return tag >> 3; }
constexpr uint32_t TypeOf(uint32_t tag) { return tag & 7; }

absl::Status Malformed(size_t offset, absl::string_view found, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("frame, byte ", offset, ": found ", found, ", expected ", expected));
}

std::string Describe(uint32_t tag) {
  return absl::StrCat("field ", FieldOf(tag), " of wire type ", TypeOf(tag));
}

void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

// Reads the front of a message, byte by byte over the pieces' borders, and never beyond its end or
// beyond kMaxFramePrefixBytes.
class PrefixReader {
 public:
  explicit PrefixReader(const SlicePayload& message)
      : pieces_(message.pieces()),
        size_(message.size()),
        limit_(std::min(message.size(), kMaxFramePrefixBytes)) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return size_ - offset_; }

  // `what` is what is being read, for the error.
  absl::StatusOr<uint32_t> ReadVarint32(absl::string_view what) {
    const size_t begin = offset_;
    uint32_t value = 0;
    for (int i = 0; i < kMaxVarint32Bytes; ++i) {
      ASSIGN_OR_RETURN(const uint32_t byte, ReadByte(what));
      // The fifth byte holds the upper 4 of 32 bits.
      if (i == kMaxVarint32Bytes - 1 && byte > 0x0f) break;
      value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) return value;
    }
    return Malformed(begin, "a number of more than 32 bits", what);
  }

  absl::Status SkipVarint64(absl::string_view what) {
    const size_t begin = offset_;
    for (int i = 0; i < kMaxVarint64Bytes; ++i) {
      ASSIGN_OR_RETURN(const uint32_t byte, ReadByte(what));
      if (byte < 0x80) return absl::OkStatus();
    }
    return Malformed(begin, "a number of more than 10 bytes", what);
  }

  absl::Status Skip(size_t count, absl::string_view what) {
    RETURN_IF_ERROR(Need(count, what));
    offset_ += count;
    while (count > 0) {
      SkipEmptyPieces();
      const size_t taken = std::min(count, pieces_[piece_].size - in_piece_);
      in_piece_ += taken;
      count -= taken;
    }
    return absl::OkStatus();
  }

  // Parses the next `count` bytes; copies them only when they straddle pieces.
  absl::Status ReadHeader(size_t count, v1::FrameHeader* header) {
    const size_t begin = offset_;
    RETURN_IF_ERROR(Need(count, "the header"));
    if (count == 0) return absl::OkStatus();
    SkipEmptyPieces();
    bool parsed;
    if (pieces_[piece_].size - in_piece_ >= count) {
      parsed = header->ParseFromArray(pieces_[piece_].data + in_piece_, static_cast<int>(count));
      offset_ += count;
      in_piece_ += count;
    } else {
      std::string bytes;
      bytes.reserve(count);
      while (bytes.size() < count) {
        SkipEmptyPieces();
        bytes.push_back(static_cast<char>(NextByte()));
      }
      parsed = header->ParseFromString(bytes);
    }
    if (parsed) return absl::OkStatus();
    return Malformed(begin, absl::StrCat(count, " bytes that do not parse"),
                     "a serialized FrameHeader");
  }

 private:
  absl::Status Need(size_t count, absl::string_view what) const {
    if (count <= limit_ - offset_) return absl::OkStatus();
    if (count > size_ - offset_) {
      return Malformed(size_, "the end of the message",
                       absl::StrCat(count - (size_ - offset_), " more bytes of ", what));
    }
    return Malformed(offset_, absl::StrCat(count, " bytes of ", what),
                     absl::StrCat("at most ", kMaxFramePrefixBytes, " bytes before the payload"));
  }

  absl::StatusOr<uint32_t> ReadByte(absl::string_view what) {
    RETURN_IF_ERROR(Need(1, what));
    SkipEmptyPieces();
    return NextByte();
  }

  // REQUIRES: the current piece has a byte left.
  uint8_t NextByte() {
    ++offset_;
    return pieces_[piece_].data[in_piece_++];
  }

  // REQUIRES: a byte remains.
  void SkipEmptyPieces() {
    while (in_piece_ == pieces_[piece_].size) {
      ++piece_;
      in_piece_ = 0;
    }
  }

  const std::vector<ByteSpan>& pieces_;
  const size_t size_;
  const size_t limit_;
  size_t offset_ = 0;
  size_t piece_ = 0;
  size_t in_piece_ = 0;
};

absl::StatusOr<uint32_t> ReadTag(PrefixReader& in) {
  const size_t begin = in.offset();
  ASSIGN_OR_RETURN(const uint32_t tag, in.ReadVarint32("a field's tag"));
  if (FieldOf(tag) == 0 || TypeOf(tag) > kFixed32) {
    return Malformed(begin, Describe(tag), "a field number of at least 1 and a wire type up to 5");
  }
  return tag;
}

// Skips what follows `tag`, which began at byte `begin`; a group with all that is in it.
absl::Status SkipField(uint32_t tag, size_t begin, PrefixReader& in) {
  std::vector<uint32_t> groups;
  for (;;) {
    switch (TypeOf(tag)) {
      case kVarint:
        RETURN_IF_ERROR(in.SkipVarint64("an unknown number"));
        break;
      case kFixed64:
        RETURN_IF_ERROR(in.Skip(8, "an unknown 64-bit field"));
        break;
      case kFixed32:
        RETURN_IF_ERROR(in.Skip(4, "an unknown 32-bit field"));
        break;
      case kLengthDelimited: {
        ASSIGN_OR_RETURN(const uint32_t length, in.ReadVarint32("an unknown field's length"));
        RETURN_IF_ERROR(in.Skip(length, "an unknown field"));
        break;
      }
      case kGroupBegin:
        if (groups.size() == kMaxGroupDepth) {
          return Malformed(begin, "one more group inside another",
                           absl::StrCat("at most ", kMaxGroupDepth));
        }
        groups.push_back(FieldOf(tag));
        break;
      default:  // kGroupEnd; ReadTag lets no other type through
        if (groups.empty() || groups.back() != FieldOf(tag)) {
          return Malformed(
              begin, absl::StrCat("the end of group ", FieldOf(tag)),
              groups.empty() ? "a field" : absl::StrCat("the end of group ", groups.back()));
        }
        groups.pop_back();
    }
    if (groups.empty()) return absl::OkStatus();
    begin = in.offset();
    ASSIGN_OR_RETURN(tag, ReadTag(in));
  }
}

}  // namespace

std::string EncodeFramePrefix(const v1::FrameHeader& header, size_t payload_bytes) {
  SANGAM_CHECK(payload_bytes <= kMaxFramePayloadBytes);
  std::string prefix;
  AppendVarint(MakeTag(kHeaderField, kLengthDelimited), &prefix);
  AppendVarint(header.ByteSizeLong(), &prefix);
  header.AppendToString(&prefix);
  if (payload_bytes > 0) {
    AppendVarint(MakeTag(kPayloadField, kLengthDelimited), &prefix);
    AppendVarint(payload_bytes, &prefix);
  }
  return prefix;
}

absl::StatusOr<Frame> DecodeFrame(const SlicePayload& message) {
  PrefixReader in(message);
  ASSIGN_OR_RETURN(const uint32_t first, ReadTag(in));
  if (first != MakeTag(kHeaderField, kLengthDelimited)) {
    return Malformed(0, Describe(first), "field 1 (header) of wire type 2");
  }
  ASSIGN_OR_RETURN(const uint32_t header_bytes, in.ReadVarint32("the header's length"));
  Frame frame;
  RETURN_IF_ERROR(in.ReadHeader(header_bytes, &frame.header));
  while (in.remaining() > 0) {
    const size_t begin = in.offset();
    ASSIGN_OR_RETURN(const uint32_t tag, ReadTag(in));
    if (tag == MakeTag(kPayloadField, kLengthDelimited)) {
      const size_t length_begin = in.offset();
      ASSIGN_OR_RETURN(const uint32_t payload_bytes, in.ReadVarint32("the payload's length"));
      if (payload_bytes != in.remaining()) {
        return Malformed(length_begin, absl::StrCat("a payload of ", payload_bytes, " bytes"),
                         absl::StrCat(in.remaining(), ", up to the end of the message"));
      }
      frame.payload = message.Sub(in.offset(), payload_bytes);
      return frame;
    }
    if (FieldOf(tag) == kHeaderField || FieldOf(tag) == kPayloadField) {
      return Malformed(begin, Describe(tag),
                       "field 15 (payload) of wire type 2, or the end of the message");
    }
    RETURN_IF_ERROR(SkipField(tag, begin, in));
  }
  return frame;
}

SlicePayload EncodeHello(const v1::StreamHello& hello) {
  auto bytes = std::make_shared<const std::string>(hello.SerializeAsString());
  const ByteSpan piece = {reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()};
  return SlicePayload({piece}, std::move(bytes));
}

absl::StatusOr<v1::StreamHello> DecodeHello(const SlicePayload& payload) {
  if (payload.size() > kMaxFramePrefixBytes) {
    return absl::InvalidArgumentError(absl::StrCat("payload of HELLO: found ", payload.size(),
                                                   " bytes, expected at most ",
                                                   kMaxFramePrefixBytes));
  }
  std::string bytes(payload.size(), '\0');
  payload.CopyTo(bytes.data());
  v1::StreamHello hello;
  if (!hello.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("payload of HELLO: found ", payload.size(),
                                                   " bytes that do not parse, expected a "
                                                   "serialized StreamHello"));
  }
  return hello;
}

}  // namespace sangam
