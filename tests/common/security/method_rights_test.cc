#include "common/security/method_rights.h"

#include <string>

#include "absl/status/status.h"
#include "common/security/identity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Role kRoles[] = {Role::kClient, Role::kViewer,      Role::kWorker,
                           Role::kServer, Role::kCoordinator, Role::kAdmin};

bool May(Role role, const std::string& method) {
  return CheckMethod(Identity{role, ""}, method).ok();
}

TEST(MethodRightsTest, TheTableInShort) {
  EXPECT_TRUE(May(Role::kClient, "/sangam.v1.JobService/SubmitJob"));
  EXPECT_FALSE(May(Role::kViewer, "/sangam.v1.JobService/SubmitJob"));
  EXPECT_FALSE(May(Role::kViewer, "/sangam.v1.JobService/CancelJob"));
  EXPECT_TRUE(May(Role::kViewer, "/sangam.v1.JobService/WatchJob"));
  EXPECT_TRUE(May(Role::kWorker, "/sangam.v1.ParameterService/PushPull"));
  EXPECT_FALSE(May(Role::kWorker, "/sangam.v1.ParameterService/ReadWeights"));
  EXPECT_FALSE(May(Role::kClient, "/sangam.v1.ParameterService/PushPull"));
  EXPECT_FALSE(May(Role::kAdmin, "/sangam.v1.ClusterService/Register"));
  EXPECT_FALSE(May(Role::kServer, "/sangam.v1.ParameterService/ReadState"));
  EXPECT_TRUE(May(Role::kCoordinator, "/sangam.v1.ParameterService/ReadState"));
  EXPECT_FALSE(May(Role::kClient, "/grpc.channelz.v1.Channelz/GetServers"));
}

// Nothing that a daemon does for a job is open to people, and the other way round.
TEST(MethodRightsTest, DaemonsAndPeopleHaveDifferentMethods) {
  for (const Role role : kRoles) {
    const bool daemon =
        role == Role::kWorker || role == Role::kServer || role == Role::kCoordinator;
    EXPECT_EQ(May(role, "/sangam.v1.JobService/ListJobs"), !daemon) << RoleName(role);
    EXPECT_EQ(May(role, "/sangam.v1.ClusterService/Heartbeat"), daemon) << RoleName(role);
    EXPECT_TRUE(May(role, "/grpc.health.v1.Health/Check")) << RoleName(role);
  }
}

TEST(MethodRightsTest, WhatTheTableDoesNotHaveIsForNobody) {
  for (const Role role : kRoles) {
    for (const char* method :
         {"", "/", "/sangam.v1.JobService/", "/sangam.v1.JobService/Submit",
          "/sangam.v1.JobService/SubmitJob2", "/sangam.v1.JobService/submitjob",
          "sangam.v1.JobService/SubmitJob", "//sangam.v1.JobService/SubmitJob"}) {
      EXPECT_FALSE(May(role, method)) << RoleName(role) << " " << method;
    }
  }
  EXPECT_TRUE(RolesFor("/sangam.v2.JobService/SubmitJob").empty());
}

TEST(MethodRightsTest, ARefusalNamesRoleMethodAndWhoMay) {
  const absl::Status status =
      CheckMethod(Identity{Role::kWorker, "w0"}, "/sangam.v1.JobService/CancelJob");
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("worker"), HasSubstr("CancelJob"), HasSubstr("client or admin")));
  const absl::Status long_one = CheckMethod(Identity{}, std::string(100000, '\n'));
  EXPECT_LT(long_one.message().size(), 1000u);
}

}  // namespace
}  // namespace sangam
