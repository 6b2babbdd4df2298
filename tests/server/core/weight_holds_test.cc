#include "server/core/weight_holds.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace sangam {
namespace {

using Jobs = std::vector<uint64_t>;

TEST(WeightHoldsTest, KeepsTheOrderAndCountsBytes) {
  WeightHolds holds;
  holds.Add({7, {{"s-1", 10}, {"s-2", 20}}});
  holds.Add({3, {{"s-2", 5}}});
  EXPECT_EQ(holds.oldest(), 7u);
  EXPECT_EQ(holds.On("s-2"), (Jobs{7, 3}));
  EXPECT_EQ(holds.On("s-1"), Jobs{7});
  EXPECT_EQ(holds.On("s-3"), Jobs{});
  EXPECT_EQ(holds.BytesOn("s-2"), 25u);
  EXPECT_EQ(holds.BytesOn("s-3"), 0u);
}

TEST(WeightHoldsTest, RemovesOnce) {
  WeightHolds holds;
  holds.Add({7, {{"s-1", 10}}});
  holds.Add({8, {{"s-1", 1}}});
  EXPECT_EQ(holds.Remove(7)->bytes.at("s-1"), 10u);
  EXPECT_FALSE(holds.Remove(7).has_value());
  EXPECT_EQ(holds.size(), 1u);
  EXPECT_EQ(holds.oldest(), 8u);
  EXPECT_EQ(holds.BytesOn("s-1"), 1u);
}

}  // namespace
}  // namespace sangam
