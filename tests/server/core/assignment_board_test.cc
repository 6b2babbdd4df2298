#include "server/core/assignment_board.h"

#include <cstdint>
#include <memory>

#include "gtest/gtest.h"
#include "proto/plan.pb.h"

namespace sangam {
namespace {

const DaemonKey kWorker{v1::WORKER, "w"};
const DaemonKey kServer{v1::SERVER, "s"};

std::shared_ptr<const v1::Assignment> Assignment(uint64_t job, v1::Assignment::Phase phase) {
  auto assignment = std::make_shared<v1::Assignment>();
  assignment->set_phase(phase);
  assignment->mutable_plan()->set_job(job);
  return assignment;
}

TEST(AssignmentBoardTest, ANewDaemonHoldsNothingUnderARevisionOfItsOwn) {
  AssignmentBoard board;
  EXPECT_EQ(board.Get(kWorker), nullptr);
  board.Add(kWorker);
  ASSERT_NE(board.Get(kWorker), nullptr);
  EXPECT_GE(board.Get(kWorker)->revision, 1u);
  EXPECT_TRUE(board.Get(kWorker)->assignments.empty());
}

TEST(AssignmentBoardTest, EveryChangeHasANewRevisionForThatDaemonOnly) {
  AssignmentBoard board;
  board.Add(kWorker);
  board.Add(kServer);
  const uint64_t worker = board.Get(kWorker)->revision;
  const uint64_t server = board.Get(kServer)->revision;
  board.Assign(kWorker, Assignment(1, v1::Assignment::PREPARE));
  EXPECT_GT(board.Get(kWorker)->revision, worker);
  EXPECT_EQ(board.Get(kServer)->revision, server);
  const uint64_t prepared = board.Get(kWorker)->revision;
  board.Assign(kWorker, Assignment(1, v1::Assignment::RUN));
  EXPECT_GT(board.Get(kWorker)->revision, prepared);
  ASSERT_EQ(board.Get(kWorker)->assignments.size(), 1u);
  EXPECT_EQ(board.Get(kWorker)->assignments.at(1)->phase(), v1::Assignment::RUN);
}

TEST(AssignmentBoardTest, WithdrawingWhatIsNotHeldChangesNothing) {
  AssignmentBoard board;
  board.Add(kServer);
  board.Assign(kServer, Assignment(1, v1::Assignment::HOLD));
  board.Assign(kServer, Assignment(2, v1::Assignment::PREPARE));
  const uint64_t before = board.Get(kServer)->revision;
  board.Withdraw(kServer, 3);
  EXPECT_EQ(board.Get(kServer)->revision, before);
  board.Withdraw(kServer, 1);
  EXPECT_GT(board.Get(kServer)->revision, before);
  EXPECT_EQ(board.Get(kServer)->assignments.count(2), 1u);
}

TEST(AssignmentBoardTest, ADaemonThatComesBackStartsEmptyUnderAnotherRevision) {
  AssignmentBoard board;
  board.Add(kServer);
  board.Assign(kServer, Assignment(1, v1::Assignment::RUN));
  const uint64_t before = board.Get(kServer)->revision;
  board.Remove(kServer);
  EXPECT_EQ(board.size(), 0u);
  board.Assign(kServer, Assignment(1, v1::Assignment::RUN));  // nobody is there
  EXPECT_EQ(board.Get(kServer), nullptr);
  board.Add(kServer);
  EXPECT_NE(board.Get(kServer)->revision, before);
  EXPECT_TRUE(board.Get(kServer)->assignments.empty());
}

}  // namespace
}  // namespace sangam
