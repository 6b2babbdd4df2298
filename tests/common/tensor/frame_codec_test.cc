#include "common/tensor/frame_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gmock/gmock.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "gtest/gtest.h"
#include "proto/tensor.pb.h"

namespace sangam {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedInputStream;
using ::testing::HasSubstr;

// The bytes cut behind each of `ends` (increasing). Every piece is a block of its own, so that a
// read beyond its end is seen by AddressSanitizer.
SlicePayload Cut(const std::string& bytes, std::vector<size_t> ends) {
  ends.push_back(bytes.size());
  auto owner = std::make_shared<std::vector<std::unique_ptr<uint8_t[]>>>();
  std::vector<ByteSpan> pieces;
  size_t begin = 0;
  for (const size_t end : ends) {
    owner->push_back(std::make_unique<uint8_t[]>(end - begin));
    if (end > begin) std::memcpy(owner->back().get(), bytes.data() + begin, end - begin);
    pieces.push_back({owner->back().get(), end - begin});
    begin = end;
  }
  return SlicePayload(std::move(pieces), std::move(owner));
}

// A literal that may hold zeros.
template <size_t kSize>
std::string Bytes(const char (&literal)[kSize]) {
  return std::string(literal, kSize - 1);
}

SlicePayload Whole(const std::string& bytes) { return Cut(bytes, {}); }

SlicePayload SingleBytes(const std::string& bytes) {
  std::vector<size_t> ends;
  for (size_t i = 1; i < bytes.size(); ++i) ends.push_back(i);
  return Cut(bytes, ends);
}

std::string ToString(const SlicePayload& payload) {
  std::string bytes(payload.size(), '\0');
  payload.CopyTo(bytes.data());
  return bytes;
}

v1::FrameHeader FullHeader() {
  v1::FrameHeader header;
  header.set_job(7);
  header.set_generation(300);
  header.set_step(1ull << 40);
  header.set_segment(129);
  header.set_first_element(262144);
  header.set_element_count(3);
  header.set_span_begin(4);
  header.set_span_end(8);
  header.set_samples(UINT64_MAX);
  header.set_encoding(v1::ENCODING_FP32);
  header.set_kind(v1::FRAME_KIND_GRADIENT);
  header.set_source(2);
  return header;
}

v1::TensorFrame FullFrame() {
  v1::TensorFrame frame;
  *frame.mutable_header() = FullHeader();
  frame.set_payload("twelve bytes");
  return frame;
}

void ExpectEqual(const Frame& frame, const v1::TensorFrame& expected) {
  EXPECT_EQ(frame.header.SerializeAsString(), expected.header().SerializeAsString());
  EXPECT_EQ(ToString(frame.payload), expected.payload());
}

void ExpectDecodesTo(const SlicePayload& message, const v1::TensorFrame& expected) {
  absl::StatusOr<Frame> frame = DecodeFrame(message);
  ASSERT_TRUE(frame.ok()) << frame.status();
  ExpectEqual(*frame, expected);
}

void ExpectRefused(const std::string& bytes, const std::string& error) {
  for (const SlicePayload& message : {Whole(bytes), SingleBytes(bytes)}) {
    const absl::StatusOr<Frame> frame = DecodeFrame(message);
    ASSERT_FALSE(frame.ok()) << absl::CHexEscape(bytes);
    EXPECT_EQ(frame.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(frame.status().message(), HasSubstr(error));
  }
}

// What protobuf makes of the bytes: whether they are a TensorFrame, and if so whether its fields
// stand as frame_codec.h wants them.
enum class Verdict { kMalformed, kOtherForm, kFrame };

Verdict ProtobufVerdict(const std::string& bytes, v1::TensorFrame* frame) {
  if (!frame->ParseFromString(bytes)) return Verdict::kMalformed;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  const uint32_t header = 1 << 3 | 2;
  const uint32_t payload = 15 << 3 | 2;
  if (in.ReadTag() != header || !WireFormatLite::SkipField(&in, header)) return Verdict::kOtherForm;
  while (in.CurrentPosition() < static_cast<int>(bytes.size())) {
    const uint32_t tag = in.ReadTag();
    const bool known = tag >> 3 == 1 || tag >> 3 == 15;
    if (known && tag != payload) return Verdict::kOtherForm;
    if (!WireFormatLite::SkipField(&in, tag)) return Verdict::kMalformed;
    if (known) {
      const bool last = in.CurrentPosition() == static_cast<int>(bytes.size());
      return last ? Verdict::kFrame : Verdict::kOtherForm;
    }
  }
  return Verdict::kFrame;
}

TEST(FrameCodecTest, PrefixAndPayloadAreProtobufsOwnBytes) {
  for (const size_t payload_bytes : {0, 1, 12, 127, 128, 20000}) {
    v1::TensorFrame frame = FullFrame();
    frame.set_payload(std::string(payload_bytes, 'p'));
    EXPECT_EQ(EncodeFramePrefix(frame.header(), payload_bytes) + frame.payload(),
              frame.SerializeAsString());
  }
  v1::TensorFrame empty;
  empty.mutable_header();
  EXPECT_EQ(EncodeFramePrefix({}, 0), empty.SerializeAsString());
}

TEST(FrameCodecTest, ParsesWhatProtobufSerializes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    v1::TensorFrame frame;
    v1::FrameHeader& header = *frame.mutable_header();
    // Numbers of every length.
    const auto number = [&random] { return random() >> (random() % 64); };
    header.set_job(number());
    header.set_generation(number());
    header.set_step(number());
    header.set_segment(static_cast<uint32_t>(number()));
    header.set_first_element(number());
    header.set_element_count(number());
    header.set_span_begin(static_cast<uint32_t>(number()));
    header.set_span_end(static_cast<uint32_t>(number()));
    header.set_samples(number());
    header.set_encoding(static_cast<v1::Encoding>(random() % 3));
    header.set_kind(static_cast<v1::FrameKind>(random() % 6));
    header.set_source(static_cast<uint32_t>(number()));
    frame.set_payload(std::string(random() % 300, 'x'));
    ExpectDecodesTo(Whole(frame.SerializeAsString()), frame);
  }
}

TEST(FrameCodecTest, EverySplitInTwoPiecesGivesTheSameFrame) {
  const v1::TensorFrame frame = FullFrame();
  const std::string bytes = frame.SerializeAsString();
  for (size_t split = 0; split <= bytes.size(); ++split) {
    SCOPED_TRACE(split);
    ExpectDecodesTo(Cut(bytes, {split}), frame);
    ExpectDecodesTo(Cut(bytes, {split, split}), frame);
  }
}

TEST(FrameCodecTest, SingleBytePiecesGiveTheSameFrame) {
  const v1::TensorFrame frame = FullFrame();
  ExpectDecodesTo(SingleBytes(frame.SerializeAsString()), frame);
}

TEST(FrameCodecTest, PayloadIsTheMessagesOwnMemory) {
  absl::StatusOr<FloatBuffer> buffer = FloatBuffer::Allocate(64);
  ASSERT_TRUE(buffer.ok());
  const SlicePayload elements = SlicePayload::FromFloats(*buffer, 0, 64);
  auto prefix =
      std::make_shared<const std::string>(EncodeFramePrefix(FullHeader(), elements.size()));
  std::vector<ByteSpan> pieces = {
      {reinterpret_cast<const uint8_t*>(prefix->data()), prefix->size()}};
  pieces.insert(pieces.end(), elements.pieces().begin(), elements.pieces().end());
  const auto owner = std::make_shared<std::pair<std::shared_ptr<const void>, FloatBuffer>>(
      prefix, std::move(*buffer));
  const float* data = owner->second.data();
  absl::StatusOr<Frame> frame = DecodeFrame(SlicePayload(std::move(pieces), owner));
  ASSERT_TRUE(frame.ok()) << frame.status();
  ASSERT_EQ(frame->payload.pieces().size(), 1);
  EXPECT_EQ(frame->payload.pieces()[0].data, reinterpret_cast<const uint8_t*>(data));
  EXPECT_EQ(frame->payload.size(), 64 * sizeof(float));
  EXPECT_EQ(frame->payload.owner(), owner);
}

TEST(FrameCodecTest, FrameWithoutPayloadHasNone) {
  v1::TensorFrame frame;
  *frame.mutable_header() = FullHeader();
  ExpectDecodesTo(SingleBytes(frame.SerializeAsString()), frame);
  // A payload that is there and empty is no other thing.
  ExpectDecodesTo(Whole(frame.SerializeAsString() + Bytes("\x7a\x00")), frame);
}

TEST(FrameCodecTest, LongVarintsAreAccepted) {
  // Tags and lengths of five bytes where one would do.
  const std::string bytes(
      "\x8a\x80\x80\x80\x00\x82\x80\x80\x80\x00\x08\x05\xfa\x80\x80\x80\x00\x81"
      "\x80\x80\x80\x00z",
      23);
  v1::TensorFrame frame;
  ASSERT_TRUE(frame.ParseFromString(bytes));
  ASSERT_EQ(frame.header().job(), 5);
  ExpectDecodesTo(Whole(bytes), frame);
  ExpectDecodesTo(SingleBytes(bytes), frame);
}

TEST(FrameCodecTest, UnknownFieldsOfEveryTypeAreSkipped) {
  const std::string header = EncodeFramePrefix(FullHeader(), 0);
  const std::string payload(
      "\x7a\x03"
      "abc",
      5);
  const std::vector<std::string> unknown = {
      Bytes("\x10\x96\x01"),                                  // number
      Bytes("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),  // longest number
      Bytes("\x19\x01\x02\x03\x04\x05\x06\x07\x08"),          // 64 bits
      Bytes("\x22\x02hi"),                                    // bytes
      Bytes("\x22\x00"),                                      // no bytes
      Bytes("\x2d\x01\x02\x03\x04"),                          // 32 bits
      Bytes("\x33\x08\x01\x7a\x01q\x3b\x3c\x34"),             // group in a group
      Bytes("\xf8\xff\xff\xff\x0f\x01"),                      // highest field number
  };
  std::string all;
  for (const std::string& field : unknown) {
    const std::string bytes = header + field + payload;
    SCOPED_TRACE(absl::CHexEscape(bytes));
    v1::TensorFrame frame;
    ASSERT_TRUE(frame.ParseFromString(bytes));
    ASSERT_EQ(frame.payload(), "abc");
    ExpectDecodesTo(Whole(bytes), frame);
    ExpectDecodesTo(SingleBytes(bytes), frame);
    ExpectDecodesTo(Whole(header + field), [&] {
      v1::TensorFrame without = frame;
      without.clear_payload();
      return without;
    }());
    all += field;
  }
  v1::TensorFrame frame;
  ASSERT_TRUE(frame.ParseFromString(header + all + payload));
  ExpectDecodesTo(Whole(header + all + payload), frame);
}

TEST(FrameCodecTest, GroupsNestAsDeepAsProtobufAllows) {
  const std::string header = EncodeFramePrefix(FullHeader(), 0);
  for (const int depth : {100, 101}) {
    const std::string bytes = header + std::string(depth, '\x33') + std::string(depth, '\x34');
    v1::TensorFrame frame;
    EXPECT_EQ(DecodeFrame(Whole(bytes)).ok(), frame.ParseFromString(bytes)) << depth;
    EXPECT_EQ(DecodeFrame(Whole(bytes)).ok(), depth == 100);
  }
}

TEST(FrameCodecTest, TruncationAtEveryByteIsRefusedWhereItIs) {
  const std::string bytes = FullFrame().SerializeAsString();
  const size_t header_end = EncodeFramePrefix(FullHeader(), 0).size();
  for (size_t size = 0; size < bytes.size(); ++size) {
    SCOPED_TRACE(size);
    const std::string cut = bytes.substr(0, size);
    if (size == header_end) {
      EXPECT_TRUE(DecodeFrame(Whole(cut)).ok());
    } else if (size < header_end + 2) {
      ExpectRefused(cut, absl::StrCat("frame, byte ", size, ": found the end of the message"));
    } else {
      ExpectRefused(
          cut, absl::StrCat("byte ", header_end + 1, ": found a payload of 12 bytes, expected ",
                            size - header_end - 2));
    }
  }
}

TEST(FrameCodecTest, MalformedMessagesAreRefusedWithPlaceAndReason) {
  const std::string header = EncodeFramePrefix(FullHeader(), 0);
  const std::string at = absl::StrCat("frame, byte ", header.size(), ": ");
  const std::string payload("\x7a\x01p", 3);
  ExpectRefused("", "byte 0: found the end of the message, expected 1 more bytes of a field's tag");
  ExpectRefused("\x08\x05", "byte 0: found field 1 of wire type 0, expected field 1 (header)");
  ExpectRefused(payload + header, "byte 0: found field 15 of wire type 2, expected field 1");
  ExpectRefused(Bytes("\x22\x00") + header, "byte 0: found field 4 of wire type 2");
  ExpectRefused(Bytes("\x0a\x02\x0f\x00"),
                "byte 2: found 2 bytes that do not parse, expected a serialized FrameHeader");
  ExpectRefused(header + header, at + "found field 1 of wire type 2, expected field 15");
  ExpectRefused(header + payload + payload, "found a payload of 1 bytes, expected 4");
  ExpectRefused(header + payload + Bytes("\x10\x01"), "found a payload of 1 bytes");
  ExpectRefused(header + Bytes("\x78\x01"), at + "found field 15 of wire type 0");
  ExpectRefused(header + Bytes("\x00\x01"), at + "found field 0 of wire type 0");
  ExpectRefused(header + "\x16", at + "found field 2 of wire type 6");
  ExpectRefused(header + "\x14", at + "found the end of group 2, expected a field");
  ExpectRefused(header + "\x13\x1c", "found the end of group 3, expected the end of group 2");
  ExpectRefused(header + "\x13", "found the end of the message");
  ExpectRefused(header + Bytes("\x2d\x01\x02\x03"),
                "found the end of the message, expected 1 more bytes of an unknown 32-bit field");
  ExpectRefused(header + "\x80\x80\x80\x80\x10", at + "found a number of more than 32 bits");
  ExpectRefused(header + "\x10" + std::string(10, '\xff') + "\x01",
                "found a number of more than 10 bytes");
  ExpectRefused("\x0a\xff\xff\xff\xff\x0f", "expected 4294967295 more bytes of the header");
}

TEST(FrameCodecTest, PrefixIsBounded) {
  const std::string header = EncodeFramePrefix(FullHeader(), 0);
  const auto with_unknown = [&header](size_t prefix_bytes) {
    // Tag and length of the unknown field have 3 bytes, of the payload 2.
    const size_t count = prefix_bytes - header.size() - 3 - 2;
    return header + "\x22" + static_cast<char>(count | 0x80) + static_cast<char>(count >> 7) +
           std::string(count, 'u') + "\x7a\x01p";
  };
  EXPECT_TRUE(DecodeFrame(Whole(with_unknown(kMaxFramePrefixBytes))).ok());
  ExpectRefused(with_unknown(kMaxFramePrefixBytes + 1),
                "expected at most 4096 bytes before the payload");
  // A header that claims to be long is refused although the bytes are there.
  ExpectRefused("\x0a\x80\x40" + std::string(8192, '\0'),
                "byte 3: found 8192 bytes of the header, expected at most 4096");
}

// Thousands of damaged messages, cut at random: the codec and protobuf agree on every one of them.
TEST(FrameCodecTest, AgreesWithProtobufOnRandomMutations) {
  std::mt19937_64 random(20240607);
  const std::string header = EncodeFramePrefix(FullHeader(), 0);
  const std::vector<std::string> seeds = {
      FullFrame().SerializeAsString(), header,
      header + Bytes("\x22\x02hi\x33\x08\x01\x34\x2d\x01\x02\x03\x04\x7a\x05hello")};
  int frames = 0;
  for (int i = 0; i < 60000; ++i) {
    std::string bytes = seeds[random() % seeds.size()];
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(random()));
          break;
        case 3:
          bytes.erase(at, 1 + random() % 3);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 6));
      }
      if (bytes.empty()) bytes = "\x0a";
    }
    std::vector<size_t> ends(random() % 5);
    for (size_t& end : ends) end = random() % (bytes.size() + 1);
    std::sort(ends.begin(), ends.end());

    v1::TensorFrame expected;
    const Verdict verdict = ProtobufVerdict(bytes, &expected);
    const absl::StatusOr<Frame> frame = DecodeFrame(Cut(bytes, ends));
    // Protobuf drops the bits of a tag beyond 32 where the codec refuses the tag.
    if (absl::StrContains(frame.status().message(), "found a number of more than 32 bits"))
      continue;
    ASSERT_EQ(frame.ok(), verdict == Verdict::kFrame) << absl::CHexEscape(bytes) << "\n"
                                                      << frame.status();
    if (frame.ok()) {
      ExpectEqual(*frame, expected);
      ++frames;
    } else {
      ASSERT_EQ(frame.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  // The mutations are neither all fatal nor all harmless.
  EXPECT_GT(frames, 5000);
  EXPECT_LT(frames, 55000);
}

TEST(FrameCodecTest, HelloComesBack) {
  v1::StreamHello hello;
  hello.set_protocol_version(3);
  hello.set_schema_hash(1ull << 63);
  hello.set_worker("worker-0");
  hello.set_incarnation(42);
  const SlicePayload payload = EncodeHello(hello);
  EXPECT_EQ(ToString(payload), hello.SerializeAsString());
  const absl::StatusOr<v1::StreamHello> back = DecodeHello(SingleBytes(ToString(payload)));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->SerializeAsString(), hello.SerializeAsString());
}

TEST(FrameCodecTest, BadHelloIsRefused) {
  EXPECT_THAT(DecodeHello(Whole("\x08")).status().message(),
              HasSubstr("found 1 bytes that do not"));
  EXPECT_THAT(DecodeHello(Whole(std::string(4097, '\0'))).status().message(),
              HasSubstr("found 4097 bytes, expected at most 4096"));
}

}  // namespace
}  // namespace sangam
