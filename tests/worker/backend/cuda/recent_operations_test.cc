#include "worker/backend/cuda/recent_operations.h"

#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(RecentOperationsTest, NamesWhatIsNotDone) {
  RecentOperations operations;
  EXPECT_EQ(operations.Pending(), "");
  operations.Add("upload");
  operations.Add("gemm");
  operations.Add("add");
  EXPECT_EQ(operations.count(), 3);
  EXPECT_EQ(operations.Pending(), "upload, gemm, add");
  operations.MarkDone(1);
  EXPECT_EQ(operations.Pending(), "gemm, add");
  operations.MarkDone(0);  // an older point, waited for later
  EXPECT_EQ(operations.Pending(), "gemm, add");
  operations.MarkDone(3);
  EXPECT_EQ(operations.Pending(), "");
}

TEST(RecentOperationsTest, OfManyTheLastOnesAreNamed) {
  RecentOperations operations;
  for (int i = 0; i < 20; ++i) operations.Add(i < 19 ? "gemm" : "add");
  operations.MarkDone(5);
  EXPECT_EQ(operations.Pending(), "7 more, gemm, gemm, gemm, gemm, gemm, gemm, gemm, add");
}

}  // namespace
}  // namespace sangam
