#include "worker/data/batch_source.h"

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(BatchSourceTest, MemoryIsThatOfEveryBufferOfEveryLane) {
  BatchOptions options;
  options.lanes = 3;
  options.ahead = 2;
  options.held = 4;
  options.max_rows = 10;
  options.input_elements = 7;
  options.labels_per_sample = 5;
  EXPECT_EQ(BatchMemoryBytes(options), 3u * 6 * 10 * (7 * 4 + 5 * 4));
  options.labels_per_sample = 0;
  EXPECT_EQ(BatchMemoryBytes(options), 3u * 6 * 10 * 7 * 4);
}

}  // namespace
}  // namespace sangam
