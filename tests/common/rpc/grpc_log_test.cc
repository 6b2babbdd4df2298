#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <string>

#include "common/base/log.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(GrpcLogTest, IsSeenAtLevelDebugOnly) {
  gpr_log_verbosity_init();  // as gRPC does when it starts
  RouteGrpcLog();
  SetLogLevel(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  gpr_log(GPR_ERROR, "first thing");
  SetLogLevel(LogLevel::kDebug);
  gpr_log(GPR_ERROR, "second thing");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("first thing"), std::string::npos) << text;
  EXPECT_NE(text.find("second thing"), std::string::npos) << "text: " << text;
}

}  // namespace
}  // namespace sangam
