#include "common/rpc/grpc_status.h"

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(GrpcStatusTest, KeepsCodeAndMessageBothWays) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "field: found 1\nexpected 2");
    const grpc::Status converted = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(converted.error_code()), code);
    EXPECT_EQ(converted.error_message(), status.message());
    EXPECT_EQ(FromGrpcStatus(converted), status);
  }
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpcStatus(grpc::Status::OK).ok());
}

TEST(GrpcStatusTest, CutsAMessageThatWouldNotFitIntoMetadata) {
  const std::string fits(kMaxEncodedMessageBytes, 'x');
  EXPECT_EQ(ToGrpcStatus(absl::InternalError(fits)).error_message(), fits);
  const std::string message =
      ToGrpcStatus(absl::InternalError(std::string(100'000, 'x'))).error_message();
  EXPECT_LE(message.size(), kMaxEncodedMessageBytes);
  EXPECT_GT(message.size(), kMaxEncodedMessageBytes / 2);
  EXPECT_TRUE(absl::EndsWith(message, " bytes more)")) << message.substr(message.size() - 40);
}

TEST(GrpcStatusTest, CountsWhatIsEncodedThreefold) {
  const std::string lines(kMaxEncodedMessageBytes / 2, '\n');
  EXPECT_LT(ToGrpcStatus(absl::InternalError(lines)).error_message().size(),
            kMaxEncodedMessageBytes / 3 + 64);
}

TEST(GrpcStatusTest, CutsBetweenCharacters) {
  std::string euros;
  for (int i = 0; i < 10'000; ++i) euros += "\xe2\x82\xac";
  const std::string message = ToGrpcStatus(absl::InternalError(euros)).error_message();
  EXPECT_EQ(message.find("... (") % 3, 0u);
}

}  // namespace
}  // namespace sangam
