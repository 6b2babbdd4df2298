#include "common/base/status_macros.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

absl::StatusOr<std::unique_ptr<int>> Make(int value) {
  if (value < 0) return absl::NotFoundError("no value");
  return std::make_unique<int>(value);
}

absl::StatusOr<int> Sum(int a, int b) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> first, Make(a));
  ASSIGN_OR_RETURN(auto second, Make(b), "while making %d", b);
  return *first + *second;
}

absl::Status Check(int value) {
  RETURN_IF_ERROR(Make(value).status(), "value %d of %s", value, "list");
  return absl::OkStatus();
}

TEST(StatusMacrosTest, PassOnTheValue) {
  const absl::StatusOr<int> sum = Sum(2, 3);
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ(*sum, 5);
  EXPECT_TRUE(Check(1).ok());
}

TEST(StatusMacrosTest, ReturnTheErrorWithItsContext) {
  EXPECT_EQ(Sum(-1, 3).status(), absl::NotFoundError("no value"));
  EXPECT_EQ(Sum(1, -3).status(), absl::NotFoundError("while making -3: no value"));
  EXPECT_EQ(Check(-4), absl::NotFoundError("value -4 of list: no value"));
}

TEST(StatusMacrosTest, ContextKeepsPayloads) {
  absl::Status status = absl::InternalError("x");
  status.SetPayload("url", absl::Cord("detail"));
  EXPECT_EQ(WithContext(status, "while y").GetPayload("url"), absl::Cord("detail"));
}

}  // namespace
}  // namespace sangam
