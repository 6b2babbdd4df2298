#include "common/tensor/buffer.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(FloatBufferTest, IsZeroAndAlignedForEverySize) {
  for (size_t size : {0, 1, 15, 16, 17, 1023, 1024, 1025}) {
    absl::StatusOr<FloatBuffer> buffer = FloatBuffer::Allocate(size);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(buffer->size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    for (size_t i = 0; i < size; ++i) EXPECT_EQ(buffer->data()[i], 0.0f);
  }
}

// Two of them, so that one may begin where the other ends.
TEST(FloatBufferTest, LargeOnesShareNoPage) {
  const auto kPage = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const size_t extra : {0, 1, 1000}) {
    const size_t size = FloatBuffer::kOwnPagesElements + extra;
    const FloatBuffer first = *FloatBuffer::Allocate(size);
    const FloatBuffer second = *FloatBuffer::Allocate(size);
    const auto first_page = [kPage](const FloatBuffer& b) {
      return reinterpret_cast<uintptr_t>(b.data()) / kPage;
    };
    const auto last_page = [kPage](const FloatBuffer& b) {
      return (reinterpret_cast<uintptr_t>(b.data() + b.size()) - 1) / kPage;
    };
    EXPECT_TRUE(last_page(first) < first_page(second) || last_page(second) < first_page(first));
    // Nor with what is not a buffer: the allocator's block begins and ends with a page.
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % kPage, 64u);
  }
}

TEST(FloatBufferTest, RefusesWhatCannotBeHad) {
  EXPECT_EQ(FloatBuffer::Allocate(std::numeric_limits<size_t>::max()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      FloatBuffer::Allocate(std::numeric_limits<size_t>::max() / sizeof(float)).status().code(),
      absl::StatusCode::kResourceExhausted);
}

TEST(FloatBufferTest, EmptyHandleHoldsNothing) {
  FloatBuffer empty;
  EXPECT_FALSE(empty);
  EXPECT_FALSE(empty.unique());
  EXPECT_EQ(empty.size(), 0u);
  FloatBuffer copy = empty;
  EXPECT_FALSE(copy);
}

TEST(FloatBufferTest, CopiesShareTheBlock) {
  FloatBuffer first = *FloatBuffer::Allocate(4);
  EXPECT_TRUE(first.unique());
  FloatBuffer second = first;
  EXPECT_FALSE(first.unique());
  EXPECT_FALSE(second.unique());
  second.data()[2] = 7;
  EXPECT_EQ(first.data()[2], 7.0f);
  second = FloatBuffer();
  EXPECT_TRUE(first.unique());
}

TEST(FloatBufferTest, MovingLeavesAnEmptyHandle) {
  FloatBuffer first = *FloatBuffer::Allocate(4);
  float* const data = first.data();
  FloatBuffer second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is tested
  EXPECT_EQ(second.data(), data);
  EXPECT_TRUE(second.unique());
  FloatBuffer third = *FloatBuffer::Allocate(1);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.size(), 4u);
}

TEST(FloatBufferTest, AssigningItselfKeepsTheBlock) {
  FloatBuffer buffer = *FloatBuffer::Allocate(2);
  buffer.data()[1] = 3;
  const FloatBuffer& same = buffer;
  buffer = same;
  EXPECT_TRUE(buffer.unique());
  EXPECT_EQ(buffer.data()[1], 3.0f);
}

TEST(FloatBufferTest, WritesOfAnotherThreadAreSeenOnceItsHandleIsGone) {
  FloatBuffer buffer = *FloatBuffer::Allocate(1024);
  std::thread writer([handle = buffer]() mutable {
    for (size_t i = 0; i < handle.size(); ++i) handle.data()[i] = static_cast<float>(i);
    handle = FloatBuffer();
  });
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (!buffer.unique() && absl::Now() < deadline) std::this_thread::yield();
  const bool unique = buffer.unique();
  for (size_t i = 0; unique && i < buffer.size(); ++i) {
    EXPECT_EQ(buffer.data()[i], static_cast<float>(i));
  }
  writer.join();
  EXPECT_TRUE(unique);
}

TEST(FloatBufferPoolTest, UsesABlockAgainOnceItIsFree) {
  FloatBufferPool pool(8, 2);
  FloatBuffer first = *pool.Take();
  float* const data = first.data();
  FloatBuffer second = *pool.Take();
  EXPECT_NE(second.data(), data);
  first = FloatBuffer();
  FloatBuffer third = *pool.Take();
  EXPECT_EQ(third.data(), data);
}

TEST(FloatBufferPoolTest, GivesNoMoreThanItsBound) {
  FloatBufferPool pool(8, 2);
  FloatBuffer first = *pool.Take();
  FloatBuffer second = *pool.Take();
  const absl::Status status = pool.Take().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("all 2 buffers of 8 floats"), std::string::npos);
  second = FloatBuffer();
  EXPECT_TRUE(pool.Take().ok());
}

TEST(FloatBufferPoolTest, NeverGivesABlockThatACopyHolds) {
  FloatBufferPool pool(8, 2);
  FloatBuffer first = *pool.Take();
  const FloatBuffer reader = first;
  first = FloatBuffer();
  EXPECT_NE(pool.Take()->data(), reader.data());
}

}  // namespace
}  // namespace sangam
