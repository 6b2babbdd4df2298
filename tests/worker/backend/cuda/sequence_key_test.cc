#include "worker/backend/cuda/sequence_key.h"

#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/backend.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

template <typename T>
std::string KeyOf(const T& value) {
  SequenceKey key;
  key.Add(value);
  return key.Take();
}

TEST(SequenceKeyTest, EveryMemberCounts) {
  std::vector<float> memory(2);
  const std::vector<void (*)(GemmArguments*)> changes = {
      [](GemmArguments* g) { ++g->a.data; },
      [](GemmArguments* g) { ++g->a.rows; },
      [](GemmArguments* g) { ++g->a.cols; },
      [](GemmArguments* g) { g->transpose_a = true; },
      [](GemmArguments* g) { ++g->b.data; },
      [](GemmArguments* g) { g->transpose_b = true; },
      [](GemmArguments* g) { ++g->c.data; },
      [](GemmArguments* g) { ++g->c.rows; },
      [](GemmArguments* g) { g->accumulate = true; },
      [](GemmArguments* g) { g->epilogue = Epilogue::kBias; },
      [](GemmArguments* g) { ++g->bias.data; },
  };
  GemmArguments plain;
  plain.a.data = plain.b.data = plain.c.data = memory.data();
  plain.bias.data = memory.data();
  for (const auto& change : changes) {
    GemmArguments other = plain;
    change(&other);
    EXPECT_NE(KeyOf(other), KeyOf(plain));
  }
  EXPECT_NE(KeyOf(Rotation{8, 2, 10000, false}), KeyOf(Rotation{8, 2, 10000, true}));
  EXPECT_NE(KeyOf(Rotation{8, 2, 10000}), KeyOf(Rotation{8, 2, 500}));
  EXPECT_NE(KeyOf(AttentionShape{8, 2}), KeyOf(AttentionShape{2, 8}));
  const WindowShape window = {{4, 3, 2}, {3, 2, 1, 1}, 5};
  EXPECT_NE(KeyOf(window), KeyOf(WindowShape{{4, 3, 2}, {3, 2, 1, 0}, 5}));
  EXPECT_NE(KeyOf(window), KeyOf(WindowShape{{4, 3, 1}, {3, 2, 1, 1}, 5}));
  EXPECT_NE(KeyOf(window), KeyOf(WindowShape{{4, 3, 2}, {3, 2, 1, 1}, 6}));
}

// Bytes between members may be anything.
TEST(SequenceKeyTest, EqualValuesHaveEqualKeys) {
  std::string keys[2];
  for (const int filler : {0, 255}) {
    alignas(GemmArguments) unsigned char memory[sizeof(GemmArguments)];
    std::memset(memory, filler, sizeof(memory));
    auto* const arguments = new (memory) GemmArguments;
    keys[filler / 255] = KeyOf(*arguments);
  }
  EXPECT_EQ(keys[0], keys[1]);
}

TEST(SequenceKeyTest, TakeEmptiesIt) {
  SequenceKey key;
  key.Add(1);
  key.Add(2);
  EXPECT_EQ(key.Take().size(), 2 * sizeof(int));
  EXPECT_EQ(key.Take(), "");
}

}  // namespace
}  // namespace sangam
