#include "server/core/membership.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"

namespace sangam {
namespace {

using Registration = Membership::Registration;

absl::Duration At(double seconds) { return absl::Seconds(1000) + absl::Seconds(seconds); }

v1::DaemonIdentity Identity(const std::string& name, uint64_t incarnation,
                            v1::DaemonRole role = v1::WORKER) {
  v1::DaemonIdentity identity;
  identity.set_role(role);
  identity.set_name(name);
  identity.set_incarnation(incarnation);
  return identity;
}

v1::RegisterRequest Request(const v1::DaemonIdentity& identity) {
  v1::RegisterRequest request;
  *request.mutable_daemon() = identity;
  return request;
}

TEST(MembershipTest, LeaseRunsOutWithoutSignsOfLifeAndSaysHowLong) {
  Membership members({});
  EXPECT_EQ(members.Register(Request(Identity("w1", 1)), At(0)).value(), Registration::kNew);
  EXPECT_TRUE(members.ExpireLeases(At(4.9)).empty());
  EXPECT_TRUE(members.Renew(Identity("w1", 1), At(4.9)).ok());
  EXPECT_TRUE(members.ExpireLeases(At(9.8)).empty());
  const auto gone = members.ExpireLeases(At(9.9));
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(ToString(gone[0].key), "worker w1");
  EXPECT_EQ(gone[0].incarnation, 1u);
  EXPECT_EQ(gone[0].why, "no sign of life for 5.0 s (lease 5 s)");
  // Told once; a call of the lost daemon does not revive it.
  EXPECT_TRUE(members.ExpireLeases(At(20)).empty());
  EXPECT_EQ(members.Renew(Identity("w1", 1), At(20)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(members.Register(Request(Identity("w1", 1)), At(20)).value(), Registration::kNew);
}

TEST(MembershipTest, SameProcessRegistersAgainWithoutHarm) {
  Membership members({});
  ASSERT_TRUE(members.Register(Request(Identity("w1", 7)), At(0)).ok());
  EXPECT_EQ(members.Register(Request(Identity("w1", 7)), At(4)).value(), Registration::kRenewed);
  EXPECT_TRUE(members.ExpireLeases(At(8.9)).empty());
  EXPECT_EQ(members.daemons().size(), 1u);
}

TEST(MembershipTest, AFaultIsThatOfTheProcess) {
  Membership members({});
  ASSERT_TRUE(members.Register(Request(Identity("w1", 7)), At(0)).ok());
  const auto fault = [&members] { return members.daemons().begin()->second.fault; };
  EXPECT_FALSE(members.SetFault(Identity("w2", 7), "not there"));
  EXPECT_TRUE(members.SetFault(Identity("w1", 7), "device lost"));
  EXPECT_FALSE(members.SetFault(Identity("w1", 7), "said again"));
  EXPECT_TRUE(members.Renew(Identity("w1", 7), At(1)).ok());
  ASSERT_TRUE(members.Register(Request(Identity("w1", 7)), At(2)).ok());
  EXPECT_EQ(fault(), "device lost");
  ASSERT_EQ(members.ExpireLeases(At(8)).size(), 1u);
  ASSERT_TRUE(members.Register(Request(Identity("w1", 7)), At(9)).ok());
  EXPECT_EQ(fault(), "device lost");
  members.Leave(Identity("w1", 7));
  ASSERT_TRUE(members.Register(Request(Identity("w1", 8)), At(10)).ok());
  EXPECT_EQ(fault(), "");
}

TEST(MembershipTest, ALivingDaemonKeepsItsNameAgainstAnotherProcess) {
  Membership members({});
  ASSERT_TRUE(members.Register(Request(Identity("w1", 7)), At(0)).ok());
  const auto second = members.Register(Request(Identity("w1", 8)), At(1.5));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(second.status().message().find("worker w1"), absl::string_view::npos);
  EXPECT_NE(second.status().message().find("1.5 s ago"), absl::string_view::npos)
      << second.status();
  EXPECT_TRUE(members.Renew(Identity("w1", 7), At(2)).ok());
  // Roles have names of their own.
  EXPECT_TRUE(members.Register(Request(Identity("w1", 8, v1::SERVER)), At(2)).ok());
}

TEST(MembershipTest, ANewProcessTakesTheNameWhenTheLeaseHasRunOutAndFencesTheOld) {
  Membership members({});
  ASSERT_TRUE(members.Register(Request(Identity("w1", 7)), At(0)).ok());
  ASSERT_EQ(members.ExpireLeases(At(5)).size(), 1u);
  EXPECT_EQ(members.Register(Request(Identity("w1", 8)), At(5)).value(), Registration::kNew);
  const absl::Status old = members.Renew(Identity("w1", 7), At(6));
  EXPECT_EQ(old.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(members.Register(Request(Identity("w1", 7)), At(6)).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_TRUE(members.Renew(Identity("w1", 8), At(6)).ok());
  EXPECT_EQ(members.Renew(Identity("w1", 9), At(6)).code(), absl::StatusCode::kNotFound);
}

TEST(MembershipTest, AfterLeavingTheNameIsFreeForAnyProcess) {
  Membership members({});
  ASSERT_TRUE(members.Register(Request(Identity("w1", 7)), At(0)).ok());
  EXPECT_FALSE(members.Leave(Identity("w1", 6)));
  EXPECT_FALSE(members.Leave(Identity("w2", 7)));
  EXPECT_TRUE(members.Leave(Identity("w1", 7)));
  EXPECT_FALSE(members.Leave(Identity("w1", 7)));
  EXPECT_EQ(members.Renew(Identity("w1", 7), At(1)).code(), absl::StatusCode::kNotFound);
  // Also for one whose clock is behind.
  EXPECT_EQ(members.Register(Request(Identity("w1", 3)), At(1)).value(), Registration::kNew);
  EXPECT_TRUE(members.ExpireLeases(At(5.9)).empty());
}

TEST(MembershipTest, RenewAllStartsEveryLeaseAnew) {
  Membership members({});
  ASSERT_TRUE(members.Register(Request(Identity("w1", 1)), At(0)).ok());
  ASSERT_TRUE(members.Register(Request(Identity("w2", 1)), At(0)).ok());
  members.RenewAll(At(100));
  EXPECT_TRUE(members.ExpireLeases(At(104.9)).empty());
  EXPECT_EQ(members.ExpireLeases(At(105)).size(), 2u);
}

TEST(MembershipTest, LivingDaemonsAreBounded) {
  Membership::Options options;
  options.max_daemons = 2;
  Membership members(options);
  ASSERT_TRUE(members.Register(Request(Identity("w1", 1)), At(0)).ok());
  ASSERT_TRUE(members.Register(Request(Identity("w2", 1)), At(1)).ok());
  EXPECT_EQ(members.Register(Request(Identity("w3", 1)), At(1)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(members.Register(Request(Identity("w1", 1)), At(1)).ok());
  ASSERT_TRUE(members.Leave(Identity("w2", 1)));
  EXPECT_TRUE(members.Register(Request(Identity("w3", 1)), At(1)).ok());
}

TEST(MembershipTest, LostDaemonsAreForgottenByNumberAndByAge) {
  Membership::Options options;
  options.max_lost = 5;
  options.remember = absl::Seconds(100);
  Membership members(options);
  absl::Duration now = At(0);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(members.Register(Request(Identity(absl::StrCat("w", i), 1)), now).ok());
    now += absl::Seconds(6);
    ASSERT_EQ(members.ExpireLeases(now).size(), 1u);
    ASSERT_LE(members.daemons().size(), 6u);
  }
  EXPECT_EQ(members.daemons().count({v1::WORKER, "w199"}), 1u);
  now += absl::Seconds(200);
  ASSERT_TRUE(members.Register(Request(Identity("fresh", 1)), now).ok());
  EXPECT_EQ(members.daemons().size(), 1u);
}

TEST(MembershipTest, ARestoredDaemonHasLongerForItsFirstTwoSignsOfLifeAndThenALease) {
  Membership members({});
  members.Restore(Request(Identity("w1", 1)), true, false, At(0));
  members.Restore(Request(Identity("w2", 1)), true, false, At(0));
  members.Restore(Request(Identity("w3", 1)), false, true, At(0));
  EXPECT_EQ(members.num_awaited(), 2u);
  EXPECT_TRUE(members.Check(Identity("w1", 1)).ok());
  EXPECT_FALSE(members.Check(Identity("w3", 1)).ok());
  EXPECT_TRUE(members.Renew(Identity("w1", 1), At(1)).ok());
  EXPECT_EQ(members.num_awaited(), 1u);
  EXPECT_TRUE(members.ExpireLeases(At(10.9)).empty());
  auto gone = members.ExpireLeases(At(11));
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(ToString(gone[0].key), "worker w2");
  EXPECT_EQ(gone[0].why, "no sign of life for 11.0 s since the coordinator was started again");
  // A report has come; its other connections may have found out only now.
  EXPECT_TRUE(members.Renew(Identity("w1", 1), At(11.9)).ok());
  EXPECT_TRUE(members.ExpireLeases(At(16.8)).empty());
  gone = members.ExpireLeases(At(16.9));
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].why, "no sign of life for 5.0 s (lease 5 s)");
  EXPECT_EQ(members.num_awaited(), 0u);
}

TEST(MembershipTest, ANewProcessTakesTheNameOfARestoredOneThatIsLost) {
  Membership members({});
  members.Restore(Request(Identity("w1", 1)), true, false, At(0));
  EXPECT_EQ(members.Register(Request(Identity("w1", 2)), At(1)).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(members.Register(Request(Identity("w1", 1)), At(2)).value(), Registration::kRenewed);
  EXPECT_EQ(members.num_awaited(), 0u);
  EXPECT_EQ(members.ExpireLeases(At(7)).size(), 1u);
  EXPECT_EQ(members.Register(Request(Identity("w1", 2)), At(8)).value(), Registration::kNew);
}

TEST(MembershipTest, SaysWhomItHasForgotten) {
  Membership::Options options;
  options.remember = absl::Seconds(20);
  Membership members(options);
  ASSERT_TRUE(members.Register(Request(Identity("w1", 1)), At(0)).ok());
  EXPECT_EQ(members.ExpireLeases(At(5)).size(), 1u);
  EXPECT_TRUE(members.TakeForgotten().empty());
  ASSERT_TRUE(members.Register(Request(Identity("w2", 1)), At(30)).ok());
  const auto forgotten = members.TakeForgotten();
  ASSERT_EQ(forgotten.size(), 1u);
  EXPECT_EQ(ToString(forgotten[0]), "worker w1");
}

}  // namespace
}  // namespace sangam
