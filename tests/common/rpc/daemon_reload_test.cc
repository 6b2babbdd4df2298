#include "common/rpc/daemon_reload.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/flags/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

class DaemonReloadTest : public ::testing::Test {
 protected:
  // The log of one reload.
  std::string Run() {
    ::testing::internal::CaptureStderr();
    reload_.Run();
    return ::testing::internal::GetCapturedStderr();
  }

  absl::StatusOr<FlagSet::Values> found_ = FlagSet::Values{{"level", "info"}, {"listen", "a:1"}};
  DaemonReload reload_{*found_, [this] { return found_; }};
};

TEST_F(DaemonReloadTest, TakesNewValuesAndTells) {
  std::string level;
  reload_.OnChange("level", [&level](const std::string& value) {
    level = value;
    return absl::OkStatus();
  });
  EXPECT_EQ(Run().find("changed"), std::string::npos);
  (*found_)["level"] = "debug";
  EXPECT_THAT(Run(), HasSubstr("reload: changed flag=level from=info to=debug"));
  EXPECT_EQ(level, "debug");
  // It has that value now.
  EXPECT_EQ(Run().find("changed"), std::string::npos);
}

TEST_F(DaemonReloadTest, OtherFlagsWaitForTheNextStart) {
  (*found_)["listen"] = "b:2";
  EXPECT_THAT(Run(), HasSubstr("changes at the next start flag=listen running=a:1 found=b:2"));
  // It is still so, and still told.
  EXPECT_THAT(Run(), HasSubstr("flag=listen running=a:1"));
}

TEST_F(DaemonReloadTest, AValueThatIsRefusedStaysAsItWas) {
  reload_.OnChange("level", [](const std::string&) { return absl::InternalError("no"); });
  (*found_)["level"] = "debug";
  EXPECT_THAT(Run(), HasSubstr("not changed flag=level running=info found=debug why=no"));
}

TEST_F(DaemonReloadTest, AFaultChangesNoFlagButTheRestIsLookedAt) {
  bool changed = false;
  reload_.OnChange("level", [&changed](const std::string&) {
    changed = true;
    return absl::OkStatus();
  });
  absl::StatusOr<std::string> certificate = "serial 2";
  reload_.OnReload("certificate", [&certificate] { return certificate; });
  found_ = absl::InvalidArgumentError("a.conf:3: unknown name");
  const std::string log = Run();
  EXPECT_THAT(log, HasSubstr("no flag changed why=\"a.conf:3: unknown name\""));
  EXPECT_THAT(log, HasSubstr("changed what=certificate found=\"serial 2\""));
  EXPECT_FALSE(changed);
  certificate = "";
  EXPECT_EQ(Run().find("certificate"), std::string::npos);
  certificate = absl::NotFoundError("gone");
  EXPECT_THAT(Run(), HasSubstr("not changed what=certificate why=gone"));
}

}  // namespace
}  // namespace sangam
