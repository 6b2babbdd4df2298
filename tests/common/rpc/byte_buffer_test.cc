#include "common/rpc/byte_buffer.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/buffer.h"
#include "common/tensor/slices.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

std::string ToString(const SlicePayload& payload) {
  std::string bytes(payload.size(), '\0');
  payload.CopyTo(bytes.data());
  return bytes;
}

std::string ToString(const grpc::ByteBuffer& message) {
  return ToString(FromByteBuffer(message).value());
}

SlicePayload Pieces(const std::vector<std::string>& texts) {
  auto owner = std::make_shared<std::vector<std::string>>(texts);
  std::vector<ByteSpan> pieces;
  for (const std::string& text : *owner) {
    pieces.push_back({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  return SlicePayload(std::move(pieces), std::move(owner));
}

TEST(ByteBufferTest, LongPayloadIsNotCopiedAndHeldUntilTheMessageIsGone) {
  FloatBuffer buffer = FloatBuffer::Allocate(1000).value();
  const uint8_t* memory = reinterpret_cast<const uint8_t*>(buffer.data() + 100);
  grpc::ByteBuffer message = ToByteBuffer("prefix", SlicePayload::FromFloats(buffer, 100, 900));
  EXPECT_FALSE(buffer.unique());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(message.Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 2);
  EXPECT_EQ(std::string(slices[0].begin(), slices[0].end()), "prefix");
  EXPECT_EQ(slices[1].begin(), memory);
  EXPECT_EQ(slices[1].size(), 3600);
  message.Clear();
  // A slice alone, as gRPC's transport has it, holds the memory too.
  slices.erase(slices.begin());
  EXPECT_FALSE(buffer.unique());
  slices.clear();
  EXPECT_TRUE(buffer.unique());
}

TEST(ByteBufferTest, EveryPieceOfAPayloadHoldsTheOwner) {
  const std::string a(2000, 'a');
  const std::string b(3000, 'b');
  SlicePayload payload = Pieces({a, "", b});
  std::weak_ptr<const void> owner = payload.owner();
  grpc::ByteBuffer message = ToByteBuffer("p", payload);
  payload = SlicePayload();
  EXPECT_EQ(ToString(message), "p" + a + b);
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(message.Dump(&slices).ok());
  message.Clear();
  while (!slices.empty()) {
    const bool last_of_payload = slices.size() == 2;
    EXPECT_FALSE(owner.expired());
    slices.pop_back();
    if (last_of_payload) break;
  }
  EXPECT_TRUE(owner.expired());
}

TEST(ByteBufferTest, ShortPayloadIsCopiedBehindItsPrefix) {
  FloatBuffer buffer = FloatBuffer::Allocate(256).value();
  buffer.data()[255] = 1.5f;
  const grpc::ByteBuffer message =
      ToByteBuffer("prefix", SlicePayload::FromFloats(buffer, 0, kInlinePayloadBytes / 4));
  EXPECT_TRUE(buffer.unique());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(message.Dump(&slices).ok());
  EXPECT_EQ(slices.size(), 1);
  const std::string bytes = ToString(message);
  EXPECT_EQ(bytes.substr(0, 6), "prefix");
  EXPECT_EQ(std::memcmp(bytes.data() + 6, buffer.data(), kInlinePayloadBytes), 0);
}

TEST(ByteBufferTest, MessageWithoutPayloadIsItsPrefix) {
  EXPECT_EQ(ToString(ToByteBuffer("prefix", SlicePayload())), "prefix");
  EXPECT_EQ(ToString(ToByteBuffer("", SlicePayload())), "");
  EXPECT_EQ(ToString(grpc::ByteBuffer()), "");
}

TEST(ByteBufferTest, ReceivedBytesLiveAsLongAsTheirPayload) {
  // The shortest slices hold their bytes inside themselves.
  const std::vector<grpc::Slice> slices = {grpc::Slice("ab"), grpc::Slice(std::string(100, 'c')),
                                           grpc::Slice("d")};
  auto message = std::make_unique<grpc::ByteBuffer>(slices.data(), slices.size());
  SlicePayload payload = FromByteBuffer(*message).value();
  message.reset();
  const SlicePayload part = payload.Sub(1, 102);
  payload = SlicePayload();
  EXPECT_EQ(ToString(part), "b" + std::string(100, 'c') + "d");
}

TEST(ByteBufferTest, OnlyShortPayloadsAreCopiedOutOfTheirBlocks) {
  const SlicePayload shorter = Pieces({std::string(16 * 1024 - 2, 'x'), "y"});
  const SlicePayload copy = WithoutPinnedBlocks(shorter);
  EXPECT_EQ(ToString(copy), ToString(shorter));
  EXPECT_NE(copy.owner(), shorter.owner());
  EXPECT_EQ(copy.pieces().size(), 1);
  const SlicePayload longer = Pieces({std::string(16 * 1024, 'x')});
  EXPECT_EQ(WithoutPinnedBlocks(longer).owner(), longer.owner());
  EXPECT_EQ(WithoutPinnedBlocks(SlicePayload()).size(), 0);
}

}  // namespace
}  // namespace sangam
