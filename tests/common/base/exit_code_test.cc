#include "common/base/exit_code.h"

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "common/base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(ExitCodeTest, ErrorsOfTheClient) {
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::OkStatus())), 0);
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::InternalError(""))), 1);
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::InvalidArgumentError(""))), 2);
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::FailedPreconditionError(""))), 2);
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::NotFoundError(""))), 5);
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::UnauthenticatedError(""))), 6);
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::PermissionDeniedError(""))), 6);
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::UnavailableError(""))), 7);
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::ResourceExhaustedError(""))), 8);
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::DeadlineExceededError(""))), 9);
  EXPECT_EQ(static_cast<int>(ExitCodeFor(absl::DataLossError(""))), 65);
}

TEST(ExitCodeTest, OnlyWhatIsMarkedIsAFaultOfTheConfiguration) {
  EXPECT_EQ(static_cast<int>(DaemonExitCodeFor(absl::OkStatus())), 0);
  const absl::Status locked = absl::FailedPreconditionError("locked");
  EXPECT_EQ(static_cast<int>(DaemonExitCodeFor(locked)), 1);
  EXPECT_EQ(static_cast<int>(DaemonExitCodeFor(OfConfiguration(locked))), 78);
  // Context keeps the mark.
  EXPECT_EQ(static_cast<int>(DaemonExitCodeFor(WithContext(OfConfiguration(locked), "x"))), 78);
  // These can pass by themselves, or have a code of their own.
  EXPECT_EQ(static_cast<int>(DaemonExitCodeFor(OfConfiguration(absl::UnavailableError("")))), 1);
  EXPECT_EQ(static_cast<int>(DaemonExitCodeFor(OfConfiguration(absl::InternalError("")))), 1);
  EXPECT_EQ(static_cast<int>(DaemonExitCodeFor(OfConfiguration(absl::DataLossError("")))), 65);
  EXPECT_TRUE(OfConfiguration(absl::OkStatus()).ok());
}

TEST(ExitCodeTest, TheTextsNameTheCodes) {
  EXPECT_THAT(ClientExitCodes(), HasSubstr("6 not allowed"));
  EXPECT_THAT(DaemonExitCodes(), HasSubstr("78 a configuration"));
}

}  // namespace
}  // namespace sangam
