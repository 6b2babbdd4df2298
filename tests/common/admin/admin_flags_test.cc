#include "common/admin/admin_flags.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/log.h"
#include "common/flags/flags.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(AdminFlagsTest, SetTheLog) {
  AdminFlags admin;
  FlagSet flags;
  admin.AddFlags(&flags);
  ASSERT_TRUE(flags.Parse({"--admin_listen=127.0.0.1:0", "--log_format=json"}).ok());
  EXPECT_EQ(admin.admin_listen, "127.0.0.1:0");
  ASSERT_TRUE(admin.SetUpLog("sangam-server").ok());
  testing::internal::CaptureStderr();
  LogInfo("x", "job=%d", 7);
  EXPECT_EQ(testing::internal::GetCapturedStderr().front(), '{');
  SetLogFormat(LogFormat::kText, "");
}

TEST(AdminFlagsTest, FlagsInEffectHaveDefaultsToo) {
  AdminFlags admin;
  FlagSet flags;
  admin.AddFlags(&flags);
  ASSERT_TRUE(flags.Parse({"--admin_listen=127.0.0.1:0"}).ok());
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"admin_listen", "127.0.0.1:0"}, {"log_format", "text"}};
  EXPECT_EQ(FlagsInEffect(flags), expected);
}

TEST(AdminFlagsTest, RefuseOtherWords) {
  AdminFlags admin;
  FlagSet flags;
  admin.AddFlags(&flags);
  EXPECT_FALSE(flags.Parse({"--log_format=xml"}).ok());
  admin.log_format = "xml";
  EXPECT_TRUE(absl::IsInvalidArgument(admin.SetUpLog("sangam-server")));
}

}  // namespace
}  // namespace sangam
