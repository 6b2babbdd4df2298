#include "common/rpc/grpc_status.h"

#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/errors/error_details.h"
#include "gtest/gtest.h"
#include "proto/google/rpc/status.pb.h"

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

TEST(GrpcStatusTest, DetailsComeBack) {
  const absl::Status status = WithFieldViolations(
      WithReason(absl::InvalidArgumentError("a: found 0"), "INVALID_JOB", {{"job", "7"}}),
      {{"a", "found 0"}});
  const grpc::Status sent = ToGrpcStatus(status);
  // What clients in other languages compare.
  google::rpc::Status rich;
  ASSERT_TRUE(rich.ParseFromString(sent.error_details()));
  EXPECT_EQ(rich.code(), static_cast<int>(sent.error_code()));
  EXPECT_EQ(rich.message(), sent.error_message());
  EXPECT_EQ(FromGrpcStatusWithDetails(sent), status);
}

TEST(GrpcStatusTest, EveryErrorHasAReasonAndWhatPassesSaysWhen) {
  const absl::Status gone = FromGrpcStatusWithDetails(ToGrpcStatus(absl::NotFoundError("x")));
  EXPECT_EQ(ReasonOf(gone)->reason, "NOT_FOUND");
  EXPECT_FALSE(RetryDelayOf(gone).has_value());
  const absl::Status away = FromGrpcStatusWithDetails(ToGrpcStatus(absl::UnavailableError("x")));
  EXPECT_EQ(RetryDelayOf(away), absl::Seconds(1));
}

TEST(GrpcStatusTest, DetailsMakeRoomForTheMessage) {
  const std::vector<FieldViolation> many(200, {"field", std::string(40, 'x')});
  const absl::Status with_room = FromGrpcStatusWithDetails(
      ToGrpcStatus(WithFieldViolations(absl::InvalidArgumentError("short"), many)));
  EXPECT_TRUE(FieldViolationsOf(with_room).empty());
  EXPECT_TRUE(ReasonOf(with_room).has_value());
  const grpc::Status without = ToGrpcStatus(absl::InvalidArgumentError(std::string(6000, 'x')));
  EXPECT_EQ(without.error_details(), "");
}

TEST(GrpcStatusTest, GarbageIsNoDetail) {
  const grpc::Status status(grpc::StatusCode::ABORTED, "x", "\xff\xff garbage");
  EXPECT_EQ(FromGrpcStatusWithDetails(status), absl::AbortedError("x"));
}

}  // namespace
}  // namespace sangam
