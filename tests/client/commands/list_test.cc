#include "client/commands/list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/commands/command_fixture.h"
#include "tests/client/fake_coordinator.h"

namespace sangam {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

TEST_F(CommandFixture, ListShowsTheNewestFirst) {
  FakeCoordinator coordinator;
  environment_.coordinator = coordinator.address();
  for (uint64_t id = 1; id <= 60; ++id) {
    v1::Job job;
    job.set_id(id);
    job.set_state(v1::QUEUED);
    coordinator.AddJob(job);
  }
  EXPECT_EQ(Run({"list", "--limit=2"}), 0) << err();
  EXPECT_EQ(out(),
            "JOB  NAME  STATE   DONE  STEPS  LOSS  ACCURACY  SAMPLES/S  AGE\n"
            " 60        QUEUED     -      0     -         -          -    -\n"
            " 59        QUEUED     -      0     -         -          -    -\n"
            "Older jobs: --limit=0 shows all.\n");
  EXPECT_EQ(Run({"list"}), 0);
  EXPECT_THAT(out(), StartsWith("JOB"));
  EXPECT_THAT(out(), EndsWith("shows all.\n"));
  EXPECT_EQ(Run({"list", "--limit=0", "--output=json"}), 0);
  const auto jobs = nlohmann::json::parse(out());
  EXPECT_EQ(jobs["job"].size(), 60u);
  EXPECT_EQ(jobs["more"], false);
  EXPECT_EQ(Run({"list", "--state=RUNNING"}), 0);
  EXPECT_THAT(out(), StartsWith("No jobs."));
  EXPECT_EQ(Run({"list", "--state=RUNNING,QUEUED"}), 0);
  EXPECT_THAT(out(), StartsWith("JOB"));
  EXPECT_EQ(Run({"list", "--state=running"}), 2);
  EXPECT_THAT(err(), StartsWith("sangam list: --state: found 'running', expected QUEUED"));
}

}  // namespace
}  // namespace sangam
