#include "server/core/job_state.h"

#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace sangam {
namespace {

const std::vector<v1::JobState> kStates = {v1::JOB_STATE_UNSPECIFIED,
                                           v1::QUEUED,
                                           v1::STARTING,
                                           v1::RUNNING,
                                           v1::SUCCEEDED,
                                           v1::FAILED,
                                           v1::CANCELLED,
                                           v1::PREEMPTED};

TEST(JobStateTest, AllowsExactlyTheDocumentedChanges) {
  const std::set<std::pair<v1::JobState, v1::JobState>> legal = {
      {v1::QUEUED, v1::STARTING},    {v1::QUEUED, v1::FAILED},     {v1::QUEUED, v1::CANCELLED},
      {v1::STARTING, v1::RUNNING},   {v1::STARTING, v1::FAILED},   {v1::STARTING, v1::CANCELLED},
      {v1::STARTING, v1::PREEMPTED}, {v1::RUNNING, v1::SUCCEEDED}, {v1::RUNNING, v1::FAILED},
      {v1::RUNNING, v1::CANCELLED},  {v1::RUNNING, v1::PREEMPTED}, {v1::PREEMPTED, v1::QUEUED}};
  for (const v1::JobState from : kStates) {
    for (const v1::JobState to : kStates) {
      EXPECT_EQ(IsLegalChange(from, to), legal.count({from, to}) == 1)
          << v1::JobState_Name(from) << " -> " << v1::JobState_Name(to);
    }
  }
}

TEST(JobStateTest, EndedMeansNoChangeIsLegal) {
  for (const v1::JobState from : kStates) {
    if (from == v1::JOB_STATE_UNSPECIFIED) continue;
    bool can_change = false;
    for (const v1::JobState to : kStates) can_change |= IsLegalChange(from, to);
    EXPECT_EQ(HasEnded(from), !can_change) << v1::JobState_Name(from);
  }
}

}  // namespace
}  // namespace sangam
