#include "worker/backend/cpu/embedding.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

// What the functions compute is tested by the conformance test; here: what they leave alone.
namespace sangam::cpu_kernels {
namespace {

TEST(EmbeddingTest, NothingIsWrittenWhenAnyTokenIsRefused) {
  const std::vector<float> tokens = {1, 0, 2};
  std::vector<float> table = {1, 2, 3, 4};
  std::vector<float> out(6, -1.0f);
  const absl::Status status = Lookup({tokens.data(), 1, 3}, {table.data(), 2, 2}, out.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "lookup: token 2 is 2, expected a whole number below 2");
  EXPECT_EQ(out, std::vector<float>(6, -1.0f));
  EXPECT_EQ(
      LookupBackward({tokens.data(), 1, 3}, {out.data(), 3, 2}, {table.data(), 2, 2}).message(),
      "lookup backward: token 2 is 2, expected a whole number below 2");
  EXPECT_EQ(table, (std::vector<float>{1, 2, 3, 4}));
}

TEST(EmbeddingTest, ATableWithoutRowsHasNoTokens) {
  const std::vector<float> tokens = {0};
  std::vector<float> out(2, -1.0f);
  EXPECT_EQ(Lookup({tokens.data(), 1, 1}, {nullptr, 0, 2}, out.data()).message(),
            "lookup: token 0 is 0, expected a whole number below 0");
  EXPECT_EQ(LookupBackward({tokens.data(), 1, 1}, {out.data(), 1, 2}, {nullptr, 0, 2}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EmbeddingTest, RowsOfATokenAreAddedInOrder) {
  const std::vector<float> tokens = {0, 0, 0};
  // In order the first two meet exactly and 1 stays; otherwise it would be lost.
  const std::vector<float> dy = {1e8f, -1e8f, 1.0f};
  std::vector<float> table_gradient = {0};
  ASSERT_TRUE(
      LookupBackward({tokens.data(), 3, 1}, {dy.data(), 3, 1}, {table_gradient.data(), 1, 1}).ok());
  EXPECT_EQ(table_gradient[0], 1.0f);
}

}  // namespace
}  // namespace sangam::cpu_kernels
