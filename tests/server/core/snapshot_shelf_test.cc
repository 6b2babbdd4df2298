#include "server/core/snapshot_shelf.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "server/core/parameter_page.h"

namespace sangam {
namespace {

using Steps = std::vector<uint64_t>;

PageState At(uint64_t step, uint64_t updates = 0) {
  PageState state;
  state.step = step;
  state.updates = updates;
  return state;
}

TEST(SnapshotShelfTest, CompleteWithTheLastPage) {
  SnapshotShelf shelf(2);
  EXPECT_EQ(shelf.Want({10, 20}), (Steps{10, 20}));
  EXPECT_FALSE(shelf.Add(1, At(10, 7)));
  EXPECT_FALSE(shelf.Add(1, At(10, 8)));
  EXPECT_FALSE(shelf.Add(0, At(20)));
  EXPECT_FALSE(shelf.Add(0, At(11)));
  EXPECT_EQ(shelf.Get(10).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(shelf.Add(0, At(10, 9)));
  ASSERT_TRUE(shelf.Get(10).ok());
  EXPECT_EQ((*shelf.Get(10))[0].updates, 9u);
  EXPECT_EQ((*shelf.Get(10))[1].updates, 7u);
}

TEST(SnapshotShelfTest, LetsGoOfWhatIsNotWantedAnyMore) {
  SnapshotShelf shelf(1);
  shelf.Want({10, 20});
  EXPECT_TRUE(shelf.Add(0, At(10)));
  EXPECT_TRUE(shelf.Add(0, At(20)));
  EXPECT_EQ(shelf.Want({20, 30}), (Steps{20, 30}));
  EXPECT_FALSE(shelf.Get(10).ok());
  EXPECT_TRUE(shelf.Get(20).ok());
  shelf.Want({});
  EXPECT_FALSE(shelf.Get(20).ok());
}

TEST(SnapshotShelfTest, WhatWasReadIsNotCopiedAgain) {
  SnapshotShelf shelf(1);
  shelf.Want({10});
  EXPECT_TRUE(shelf.Add(0, At(10)));
  shelf.Remove(10);
  EXPECT_FALSE(shelf.Get(10).ok());
  EXPECT_EQ(shelf.Want({10, 20}), Steps{20});
  EXPECT_FALSE(shelf.Add(0, At(10)));
}

TEST(SnapshotShelfTest, KeepsTwoStepsAtMost) {
  SnapshotShelf shelf(1);
  EXPECT_EQ(shelf.Want({1, 2, 3}), (Steps{1, 2}));
  EXPECT_FALSE(shelf.Add(0, At(3)));
}

}  // namespace
}  // namespace sangam
