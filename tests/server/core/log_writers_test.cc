#include "server/core/log_writers.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "server/core/daemon_key.h"

namespace sangam {
namespace {

const DaemonKey kOne = {v1::WORKER, "1"};
const DaemonKey kTwo = {v1::WORKER, "2"};
const DaemonKey kThree = {v1::WORKER, "3"};

TEST(LogWritersTest, AreThoseOfTheJobInTheirRole) {
  LogWriters writers;
  writers.Admit(7, kOne);
  EXPECT_TRUE(writers.Has(7, kOne));
  EXPECT_FALSE(writers.Has(7, kTwo));
  EXPECT_FALSE(writers.Has(8, kOne));
  EXPECT_FALSE(writers.Has(7, {v1::SERVER, "1"}));
  writers.Forget(7);
  EXPECT_FALSE(writers.Has(7, kOne));
}

TEST(LogWritersTest, TheOldestOfAJobGoFirst) {
  LogWriters writers(2);
  writers.Admit(7, kOne);
  writers.Admit(7, kTwo);
  writers.Admit(7, kOne);
  writers.Admit(8, kThree);
  writers.Admit(7, kThree);
  EXPECT_TRUE(writers.Has(7, kOne)) << "it came again";
  EXPECT_FALSE(writers.Has(7, kTwo));
  EXPECT_TRUE(writers.Has(7, kThree));
  EXPECT_TRUE(writers.Has(8, kThree));
}

TEST(LogWritersTest, JobsThatAreNotKnownAreForgotten) {
  LogWriters writers;
  for (uint64_t job = 1; job <= 4; ++job) writers.Admit(job, kOne);
  writers.KeepOnly([](uint64_t job) { return job % 2 == 0; });
  EXPECT_EQ(writers.jobs(), 2u);
  EXPECT_TRUE(writers.Has(4, kOne));
  EXPECT_FALSE(writers.Has(3, kOne));
}

}  // namespace
}  // namespace sangam
