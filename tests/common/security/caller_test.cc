#include "common/security/caller.h"

#include "absl/status/status.h"
#include "common/security/identity.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

Caller Of(Role role, const std::string& name = "") { return Caller(Identity{role, name}); }

TEST(CallerTest, ClientsHaveTheirOwnJobsViewersReadAllAdminsDoAll) {
  const Caller alice = Of(Role::kClient, "alice");
  EXPECT_TRUE(alice.MayRead("alice") && alice.MayChange("alice"));
  EXPECT_FALSE(alice.MayRead("bob") || alice.MayChange("bob") || alice.MayRead(""));
  EXPECT_FALSE(alice.sees_all());
  const Caller viewer = Of(Role::kViewer, "eve");
  EXPECT_TRUE(viewer.MayRead("alice") && viewer.MayRead("eve"));
  EXPECT_FALSE(viewer.MayChange("alice") || viewer.MayChange("eve"));
  const Caller admin = Of(Role::kAdmin);
  EXPECT_TRUE(admin.MayRead("alice") && admin.MayChange("alice"));
  for (const Role daemon : {Role::kWorker, Role::kServer, Role::kCoordinator}) {
    EXPECT_FALSE(Of(daemon, "alice").MayRead("alice") || Of(daemon, "alice").MayChange("alice"));
  }
  // Without credentials everybody is believed.
  EXPECT_TRUE(Caller().MayRead("alice") && Caller().MayChange("alice"));
  EXPECT_EQ(Caller().owner(), "");
  EXPECT_EQ(alice.owner(), "alice");
}

TEST(CallerTest, DaemonsActUnderTheirOwnName) {
  const Caller w0 = Of(Role::kWorker, "w0");
  EXPECT_TRUE(w0.CheckDaemon(Role::kWorker, "w0").ok());
  EXPECT_EQ(w0.CheckDaemon(Role::kWorker, "w1").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(w0.CheckDaemon(Role::kServer, "w0").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(Of(Role::kWorker).CheckDaemon(Role::kWorker, "any").ok());
  // A coordinator can be a server too; a server is no coordinator, and nobody else is a daemon.
  EXPECT_TRUE(Of(Role::kCoordinator, "c").CheckDaemon(Role::kServer, "c").ok());
  EXPECT_FALSE(Of(Role::kCoordinator, "c").CheckDaemon(Role::kServer, "d").ok());
  EXPECT_FALSE(Of(Role::kServer).CheckDaemon(Role::kWorker, "").ok());
  EXPECT_FALSE(Of(Role::kAdmin).CheckDaemon(Role::kWorker, "w0").ok());
  EXPECT_TRUE(Caller().CheckDaemon(Role::kWorker, "w0").ok());
}

}  // namespace
}  // namespace sangam
