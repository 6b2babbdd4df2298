#include "client/commands/cluster.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

TEST_F(CommandFixture, ClusterShowsTheDaemons) {
  FakeCoordinator coordinator;
  environment_.coordinator = coordinator.address();
  v1::Cluster cluster;
  v1::DaemonStatus& daemon = *cluster.add_daemon();
  daemon.set_role("worker");
  daemon.set_name("worker-0");
  daemon.set_alive(true);
  daemon.set_threads(2);
  daemon.set_backend("cpu");
  daemon.set_address("10.0.0.2:1");
  daemon.set_flops_per_second(12.34e9);
  coordinator.SetCluster(cluster);
  EXPECT_EQ(Run({"cluster"}), 0) << err();
  EXPECT_EQ(out(),
            "ROLE    NAME      STATE  SILENT  ADDRESS     THREADS  GFLOP/S  MEMORY  BACKEND  JOBS\n"
            "worker  worker-0  alive      0s  10.0.0.2:1        2     12.3       -  cpu      -\n");
  EXPECT_EQ(Run({"cluster", "--output=json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["daemon"][0]["name"], "worker-0");
  cluster.mutable_daemon(0)->set_draining("its process is about to end");
  coordinator.SetCluster(cluster);
  EXPECT_EQ(Run({"cluster"}), 0) << err();
  EXPECT_THAT(out(), ::testing::HasSubstr("worker  worker-0  DRAINING "));
}

TEST_F(CommandFixture, ADaemonIsTakenOutOfUseAndBack) {
  FakeCoordinator coordinator;
  environment_.coordinator = coordinator.address();
  EXPECT_EQ(Run({"cluster", "drain", "w-3", "--role=worker"}), 0) << err();
  EXPECT_EQ(out(), "worker w-3 drains; jobs that it still has: 7\n");
  EXPECT_EQ(Run({"cluster", "undrain", "w-3"}), 0) << err();
  EXPECT_THAT(out(), ::testing::HasSubstr("worker w-3 is in use again\n"));
  ASSERT_EQ(coordinator.drained().size(), 2u);
  EXPECT_EQ(coordinator.drained()[0].role(), "worker");
  EXPECT_EQ(coordinator.drained()[0].name(), "w-3");
  EXPECT_FALSE(coordinator.drained()[0].undrain());
  EXPECT_TRUE(coordinator.drained()[1].undrain());
  EXPECT_EQ(Run({"cluster", "stop", "w-3"}), 2);
  EXPECT_EQ(Run({"cluster", "drain"}), 2);
  EXPECT_THAT(err(), ::testing::HasSubstr("NAME is missing"));
}

}  // namespace
}  // namespace sangam
