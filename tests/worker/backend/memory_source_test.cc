#include "worker/backend/memory_source.h"

#include <cstdint>
#include <limits>
#include <memory>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"

namespace sangam {
namespace {

TEST(MemorySourceTest, GivesTheBackendsMemory) {
  const std::unique_ptr<Backend> backend = CreateBackend("cpu").value();
  const auto memory = MemorySource(backend.get()).Allocate(5);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->size(), 5);
  (*memory)->data()[4] = 1;
}

TEST(MemorySourceTest, CountsWhatHasToBeReserved) {
  int64_t elements = 0;
  const MemorySource source = MemorySource::Counting(&elements);
  const auto memory = source.Allocate(5);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->data(), nullptr);
  EXPECT_EQ((*memory)->size(), 5);
  EXPECT_EQ(elements, 64);
  ASSERT_TRUE(source.Allocate(0).ok());
  EXPECT_EQ(elements, 64);
  ASSERT_TRUE(source.Allocate(65).ok());
  EXPECT_EQ(elements, 192);
}

TEST(MemorySourceTest, SumsWithoutANumberAreRefused) {
  int64_t elements = 0;
  const MemorySource source = MemorySource::Counting(&elements);
  constexpr int64_t kHalf = std::numeric_limits<int64_t>::max() / 16;
  ASSERT_TRUE(source.Allocate(kHalf).ok());
  EXPECT_EQ(source.Allocate(kHalf + 64).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(source.Allocate(-1).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace sangam
