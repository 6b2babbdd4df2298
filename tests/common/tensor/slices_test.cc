#include "common/tensor/slices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/tensor/buffer.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using Bytes = std::vector<uint8_t>;

// `bytes` in pieces that end at `cuts` (increasing), each in memory of its own.
SlicePayload InPieces(const Bytes& bytes, std::vector<size_t> cuts) {
  auto owner = std::make_shared<std::vector<Bytes>>();
  cuts.push_back(bytes.size());
  size_t begin = 0;
  for (size_t end : cuts) {
    owner->emplace_back(bytes.begin() + static_cast<ptrdiff_t>(begin),
                        bytes.begin() + static_cast<ptrdiff_t>(end));
    begin = end;
  }
  std::vector<ByteSpan> pieces;
  for (const Bytes& piece : *owner) pieces.push_back({piece.data(), piece.size()});
  return SlicePayload(std::move(pieces), std::move(owner));
}

Bytes Counting(size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 37 + 1);
  return bytes;
}

Bytes Content(const SlicePayload& payload) {
  Bytes bytes(payload.size());
  payload.CopyTo(bytes.data());
  return bytes;
}

TEST(SlicePayloadTest, EmptyPayloadHasNoBytes) {
  const SlicePayload payload;
  EXPECT_EQ(payload.size(), 0u);
  EXPECT_TRUE(Content(payload).empty());
  EXPECT_TRUE(Content(payload.Sub(0, 0)).empty());
}

TEST(SlicePayloadTest, SizeIsTheSumOfThePieces) {
  const Bytes bytes = Counting(100);
  const SlicePayload payload = InPieces(bytes, {0, 3, 3, 50});
  EXPECT_EQ(payload.size(), 100u);
  EXPECT_EQ(payload.pieces().size(), 5u);
  EXPECT_EQ(Content(payload), bytes);
}

TEST(SlicePayloadTest, SubIsTheSameAsCuttingTheBytes) {
  const Bytes bytes = Counting(40);
  const SlicePayload payload = InPieces(bytes, {0, 1, 7, 7, 20});
  for (size_t offset = 0; offset <= bytes.size(); ++offset) {
    for (size_t count = 0; offset + count <= bytes.size(); ++count) {
      const SlicePayload part = payload.Sub(offset, count);
      ASSERT_EQ(part.size(), count);
      const auto begin = bytes.begin() + static_cast<ptrdiff_t>(offset);
      ASSERT_EQ(Content(part), Bytes(begin, begin + static_cast<ptrdiff_t>(count)));
    }
  }
}

TEST(SlicePayloadTest, PartKeepsTheMemoryAlive) {
  const Bytes bytes = Counting(16);
  SlicePayload payload = InPieces(bytes, {5});
  const std::weak_ptr<const void> alive = payload.owner();
  SlicePayload part = payload.Sub(4, 4);
  payload = SlicePayload();
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(Content(part), Bytes(bytes.begin() + 4, bytes.begin() + 8));
  part = SlicePayload();
  EXPECT_TRUE(alive.expired());
}

TEST(SlicePayloadTest, FromFloatsPointsIntoTheBufferAndHoldsIt) {
  FloatBuffer buffer = *FloatBuffer::Allocate(8);
  for (size_t i = 0; i < 8; ++i) buffer.data()[i] = static_cast<float>(i);
  {
    const SlicePayload payload = SlicePayload::FromFloats(buffer, 2, 3);
    ASSERT_EQ(payload.pieces().size(), 1u);
    EXPECT_EQ(payload.pieces()[0].data, reinterpret_cast<const uint8_t*>(buffer.data() + 2));
    EXPECT_EQ(payload.size(), 12u);
    EXPECT_FALSE(buffer.unique());
    float values[3];
    payload.CopyTo(values);
    EXPECT_EQ(values[0], 2.0f);
    EXPECT_EQ(values[2], 4.0f);
  }
  EXPECT_TRUE(buffer.unique());
}

TEST(SliceCursorTest, PointsIntoThePieceWhenItCan) {
  const SlicePayload payload = InPieces(Counting(20), {12});
  SliceCursor cursor(payload);
  uint8_t scratch[20];
  EXPECT_EQ(cursor.Next(8, scratch), payload.pieces()[0].data);
  EXPECT_EQ(cursor.Next(4, scratch), payload.pieces()[0].data + 8);
  EXPECT_EQ(cursor.Next(8, scratch), payload.pieces()[1].data);
}

TEST(SliceCursorTest, CopiesWhatStraddlesPieces) {
  const Bytes bytes = Counting(20);
  const SlicePayload payload = InPieces(bytes, {3, 4, 4, 9});
  SliceCursor cursor(payload);
  uint8_t scratch[20];
  EXPECT_EQ(cursor.Next(12, scratch), scratch);
  EXPECT_EQ(std::memcmp(scratch, bytes.data(), 12), 0);
  EXPECT_EQ(cursor.Next(8, scratch), payload.pieces()[4].data + 3);
}

TEST(SliceCursorTest, AskingForNothingIsAllowedAnywhere) {
  const SlicePayload payload = InPieces(Counting(2), {});
  SliceCursor cursor(payload);
  uint8_t scratch[2];
  cursor.Next(0, scratch);
  cursor.Next(2, scratch);
  cursor.Next(0, scratch);
  const SlicePayload empty;
  SliceCursor none(empty);
  none.Next(0, scratch);
}

TEST(SliceCursorTest, RandomCutsAndReadsGiveTheBytesInOrder) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const Bytes bytes = Counting(random() % 200);
    std::vector<size_t> cuts;
    for (size_t cut = random() % 20; cut < bytes.size(); cut += random() % 20) cuts.push_back(cut);
    const SlicePayload payload = InPieces(bytes, cuts);
    SliceCursor cursor(payload);
    Bytes read;
    while (read.size() < bytes.size()) {
      const size_t count = std::min<size_t>(random() % 40, bytes.size() - read.size());
      Bytes scratch(count);
      const uint8_t* found = cursor.Next(count, scratch.data());
      read.insert(read.end(), found, found + count);
    }
    ASSERT_EQ(read, bytes);
  }
}

}  // namespace
}  // namespace sangam
