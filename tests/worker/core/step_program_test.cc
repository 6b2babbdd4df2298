#include "worker/core/step_program.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/plan/batch_cut.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "worker/core/instruction.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

// A plan of `workers` workers over blocks of which those in `trained` have parameters.
v1::Plan MakePlan(uint32_t micro_batches, uint32_t shares, uint32_t workers,
                  const std::vector<bool>& trained) {
  v1::Plan plan;
  plan.set_micro_batches(micro_batches);
  plan.set_shares(shares);
  v1::StagePlan* stage = plan.add_stage();
  stage->set_block_count(static_cast<uint32_t>(trained.size()));
  for (const bool has_weights : trained) {
    v1::BlockLayout* block = plan.mutable_layout()->add_block();
    block->set_segment(has_weights ? plan.layout().segment_size() : -1);
    if (has_weights) {
      plan.mutable_layout()->add_segment()->set_block(
          static_cast<uint32_t>(plan.layout().block_size() - 1));
    }
  }
  for (uint32_t w = 0; w < workers; ++w) {
    v1::WorkerPlan* worker = plan.add_worker();
    worker->set_name(absl::StrCat("w", w));
    const IndexRange part = EvenPart(shares, workers, w);
    worker->mutable_shares()->set_begin(static_cast<uint32_t>(part.begin));
    worker->mutable_shares()->set_end(static_cast<uint32_t>(part.end));
    worker->set_evaluation_part(w);
    worker->set_evaluation_parts(workers);
  }
  return plan;
}

StepProgram Build(const v1::Plan& plan, const ProgramInputs& inputs, RoundKind kind) {
  auto program = BuildStepProgram(plan, inputs, kind);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *program : StepProgram();
}

TEST(StepProgramTest, OneLaneWithTwoSharesOfTwoMicroBatches) {
  // Block 0 has no parameters: no gradient is needed below block 1.
  const v1::Plan plan = MakePlan(4, 2, 1, {false, true, true});
  EXPECT_EQ(ToString(Build(plan, {}, RoundKind::kTrain)),
            "lane 0\n"
            "  LoadBatch 0\n"
            "  Forward b0\n"
            "  AwaitWeights b1\n"
            "  Forward b1\n"
            "  AwaitWeights b2\n"
            "  Forward b2\n"
            "  Loss 0\n"
            "  Backward b2\n"
            "  Backward b1 weights\n"
            "  LoadBatch 1\n"
            "  Forward b0\n"
            "  Forward b1\n"
            "  Forward b2\n"
            "  Loss 1\n"
            "  Backward b2\n"
            "  EmitGradient b2 share 0\n"
            "  Backward b1 weights\n"
            "  EmitGradient b1 share 0\n"
            "  EndShare 0\n"
            "  LoadBatch 2\n"
            "  Forward b0\n"
            "  Forward b1\n"
            "  Forward b2\n"
            "  Loss 2\n"
            "  Backward b2\n"
            "  Backward b1 weights\n"
            "  LoadBatch 3\n"
            "  Forward b0\n"
            "  Forward b1\n"
            "  Forward b2\n"
            "  Loss 3\n"
            "  Backward b2\n"
            "  EmitGradient b2 share 1\n"
            "  Backward b1 weights\n"
            "  EmitGradient b1 share 1\n"
            "  EndShare 1\n");
}

TEST(StepProgramTest, SecondWorkerWithTwoLanesAndUnevenShares) {
  // Five micro-batches in three shares: [0,1), [1,3), [3,5). The second of two workers has shares 1
  // and 2. A block without parameters above one with them passes the gradient on.
  const v1::Plan plan = MakePlan(5, 3, 2, {true, false});
  ProgramInputs inputs;
  inputs.worker = 1;
  inputs.lanes = 2;
  EXPECT_EQ(ToString(Build(plan, inputs, RoundKind::kTrain)),
            "lane 0\n"
            "  LoadBatch 1\n"
            "  AwaitWeights b0\n"
            "  Forward b0\n"
            "  Forward b1\n"
            "  Loss 1\n"
            "  Backward b1\n"
            "  Backward b0 weights\n"
            "  LoadBatch 2\n"
            "  Forward b0\n"
            "  Forward b1\n"
            "  Loss 2\n"
            "  Backward b1\n"
            "  Backward b0 weights\n"
            "  EmitGradient b0 share 1\n"
            "  EndShare 1\n"
            "lane 1\n"
            "  LoadBatch 3\n"
            "  AwaitWeights b0\n"
            "  Forward b0\n"
            "  Forward b1\n"
            "  Loss 3\n"
            "  Backward b1\n"
            "  Backward b0 weights\n"
            "  LoadBatch 4\n"
            "  Forward b0\n"
            "  Forward b1\n"
            "  Loss 4\n"
            "  Backward b1\n"
            "  Backward b0 weights\n"
            "  EmitGradient b0 share 2\n"
            "  EndShare 2\n");
}

TEST(StepProgramTest, EvaluationDealsChunksInTurn) {
  const v1::Plan plan = MakePlan(4, 4, 2, {true});
  ProgramInputs inputs;
  inputs.worker = 1;
  inputs.lanes = 2;
  inputs.evaluation_chunks = 7;
  EXPECT_EQ(ToString(Build(plan, inputs, RoundKind::kEvaluate)),
            "lane 0\n"
            "  LoadBatch 1\n"
            "  AwaitWeights b0\n"
            "  Forward b0\n"
            "  Score 1\n"
            "  LoadBatch 5\n"
            "  Forward b0\n"
            "  Score 5\n"
            "  EndEvaluation\n"
            "lane 1\n"
            "  LoadBatch 3\n"
            "  AwaitWeights b0\n"
            "  Forward b0\n"
            "  Score 3\n"
            "  EndEvaluation\n");
}

TEST(StepProgramTest, FinishAwaitsEveryBlocksWeightsInEveryLane) {
  const v1::Plan plan = MakePlan(4, 4, 1, {true, false, true});
  ProgramInputs inputs;
  inputs.lanes = 2;
  EXPECT_EQ(ToString(Build(plan, inputs, RoundKind::kFinish)),
            "lane 0\n"
            "  AwaitWeights b0\n"
            "  AwaitWeights b2\n"
            "lane 1\n"
            "  AwaitWeights b0\n"
            "  AwaitWeights b2\n");
}

// What one pass over a lane's list must satisfy; adds what it does to the counts.
class LaneChecker {
 public:
  LaneChecker(const v1::Plan& plan, uint32_t first_trained)
      : plan_(plan), first_trained_(first_trained) {}

  void Check(const std::vector<Instruction>& list) {
    std::set<uint32_t> awaited;
    uint32_t next_forward = 0;
    uint32_t next_backward = 0;
    int64_t last_batch = -1;
    for (const Instruction& i : list) {
      switch (i.op) {
        case Op::kLoadBatch:
          EXPECT_LT(last_batch, static_cast<int64_t>(i.index)) << "micro-batches in order";
          last_batch = i.index;
          ++batches_[i.index];
          next_forward = 0;
          break;
        case Op::kAwaitWeights:
          EXPECT_TRUE(HasWeights(i.block));
          EXPECT_TRUE(awaited.insert(i.block).second);
          break;
        case Op::kForward:
          EXPECT_EQ(i.block, next_forward++);
          EXPECT_TRUE(!HasWeights(i.block) || awaited.count(i.block) == 1);
          break;
        case Op::kLoss:
          EXPECT_EQ(i.index, last_batch);
          EXPECT_EQ(next_forward, Blocks());
          next_backward = Blocks();
          break;
        case Op::kBackward:
          EXPECT_EQ(i.block, --next_backward);
          EXPECT_EQ(i.input_gradient, i.block > first_trained_);
          backward_[i.block].push_back(static_cast<uint32_t>(last_batch));
          break;
        case Op::kEmitGradient:
          EXPECT_EQ(i.block, next_backward) << "right after the block's backward";
          CheckShareComplete(i.block, i.index);
          ++emitted_[{i.block, i.index}];
          break;
        case Op::kEndShare:
          EXPECT_EQ(next_backward, first_trained_);
          ++ended_[i.index];
          break;
        default:
          ADD_FAILURE() << ToString(i);
      }
    }
  }

  const std::map<uint32_t, int>& batches() const { return batches_; }
  const std::map<std::pair<uint32_t, uint32_t>, int>& emitted() const { return emitted_; }
  const std::map<uint32_t, int>& ended() const { return ended_; }

 private:
  uint32_t Blocks() const { return static_cast<uint32_t>(plan_.layout().block_size()); }
  bool HasWeights(uint32_t block) const {
    return plan_.layout().block(static_cast<int>(block)).segment() >= 0;
  }
  // All of the share's micro-batches, in order, have just gone back through the block.
  void CheckShareComplete(uint32_t block, uint32_t share) {
    BatchCut cut;
    cut.micro_batches = plan_.micro_batches();
    cut.shares = plan_.shares();
    const IndexRange range = cut.ShareMicroBatches(share);
    const std::vector<uint32_t>& done = backward_[block];
    ASSERT_GE(done.size(), range.size());
    for (uint64_t m = range.begin; m < range.end; ++m) {
      EXPECT_EQ(done[done.size() - range.size() + (m - range.begin)], m);
    }
  }

  const v1::Plan& plan_;
  const uint32_t first_trained_;
  std::map<uint32_t, std::vector<uint32_t>> backward_;
  std::map<uint32_t, int> batches_;
  std::map<std::pair<uint32_t, uint32_t>, int> emitted_;
  std::map<uint32_t, int> ended_;
};

TEST(StepProgramTest, EveryPieceOfTheBatchIsComputedOnceWhateverTheCluster) {
  const std::vector<std::vector<bool>> models = {{true}, {false, true}, {true, false, true, true}};
  for (const std::vector<bool>& model : models) {
    const uint32_t first_trained =
        static_cast<uint32_t>(std::find(model.begin(), model.end(), true) - model.begin());
    const uint32_t trained = static_cast<uint32_t>(std::count(model.begin(), model.end(), true));
    for (uint32_t m = 1; m <= 9; ++m) {
      for (uint32_t s = 1; s <= m; ++s) {
        for (uint32_t w = 1; w <= 5; ++w) {
          for (uint32_t threads = 1; threads <= 4; ++threads) {
            const v1::Plan plan = MakePlan(m, s, w, model);
            LaneChecker checker(plan, first_trained);
            for (uint32_t i = 0; i < w; ++i) {
              const auto lanes = NumLanes(plan, i, threads);
              ASSERT_TRUE(lanes.ok());
              if (*lanes == 0) continue;
              ProgramInputs inputs;
              inputs.worker = i;
              inputs.lanes = *lanes;
              const StepProgram program = Build(plan, inputs, RoundKind::kTrain);
              ASSERT_EQ(program.lanes.size(), *lanes);
              for (const auto& list : program.lanes) {
                EXPECT_FALSE(list.empty()) << "every lane has a share of every step";
                checker.Check(list);
              }
            }
            ASSERT_EQ(checker.batches().size(), m);
            ASSERT_EQ(checker.ended().size(), s);
            ASSERT_EQ(checker.emitted().size(), s * trained);
            for (const auto& [index, times] : checker.batches()) ASSERT_EQ(times, 1);
            for (const auto& [index, times] : checker.ended()) ASSERT_EQ(times, 1);
            for (const auto& [index, times] : checker.emitted()) ASSERT_EQ(times, 1);
          }
        }
      }
    }
  }
}

TEST(StepProgramTest, EveryChunkIsScoredOnceWhateverTheCluster) {
  for (uint64_t chunks = 0; chunks <= 11; ++chunks) {
    for (uint32_t w = 1; w <= 4; ++w) {
      for (uint32_t lanes = 1; lanes <= 3; ++lanes) {
        const v1::Plan plan = MakePlan(12, 12, w, {true, true});
        std::map<uint32_t, int> scored;
        for (uint32_t i = 0; i < w; ++i) {
          ProgramInputs inputs;
          inputs.worker = i;
          inputs.lanes = lanes;
          inputs.evaluation_chunks = chunks;
          for (const auto& list : Build(plan, inputs, RoundKind::kEvaluate).lanes) {
            EXPECT_EQ(std::count(list.begin(), list.end(), Instruction{Op::kEndEvaluation}), 1);
            for (const Instruction& instruction : list) {
              if (instruction.op == Op::kScore) ++scored[instruction.index];
            }
          }
        }
        EXPECT_EQ(scored.size(), chunks);
        for (const auto& [chunk, times] : scored) EXPECT_EQ(times, 1);
      }
    }
  }
}

TEST(StepProgramTest, LanesAreBoundedByThreadsAndShares) {
  const v1::Plan plan = MakePlan(8, 5, 2, {true});  // shares [0,2) and [2,5)
  EXPECT_EQ(NumLanes(plan, 0, 1).value(), 1);
  EXPECT_EQ(NumLanes(plan, 0, 8).value(), 2);
  EXPECT_EQ(NumLanes(plan, 1, 8).value(), 3);
  EXPECT_EQ(NumLanes(plan, 1, 0).value(), 1);
  EXPECT_EQ(NumLanes(MakePlan(1, 1, 2, {true}), 0, 4).value(), 0);  // no shares
}

// Changes one thing of a sound plan and expects a refusal that names it.
void ExpectRefused(const v1::Plan& plan, const ProgramInputs& inputs, RoundKind kind,
                   absl::StatusCode code, const std::string& words) {
  const auto program = BuildStepProgram(plan, inputs, kind);
  EXPECT_EQ(program.status().code(), code) << program.status();
  EXPECT_THAT(std::string(program.status().message()), HasSubstr(words));
}

TEST(StepProgramTest, RefusesPlansThatContradictThemselves) {
  const v1::Plan sound = MakePlan(4, 4, 2, {true, true});
  ProgramInputs inputs;
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  inputs.worker = 2;
  ExpectRefused(sound, inputs, RoundKind::kTrain, kInvalid, "worker index 2");
  inputs.worker = 0;
  inputs.lanes = 3;
  ExpectRefused(sound, inputs, RoundKind::kTrain, kInvalid, "3 lanes for 2 shares");
  inputs.lanes = 0;
  ExpectRefused(sound, inputs, RoundKind::kTrain, kInvalid, "lanes: found 0");
  inputs.lanes = 1;

  v1::Plan plan = sound;
  plan.set_shares(5);
  ExpectRefused(plan, inputs, RoundKind::kTrain, kInvalid, "plan.shares: found 5");
  plan = sound;
  plan.mutable_worker(0)->mutable_shares()->set_end(7);
  ExpectRefused(plan, inputs, RoundKind::kTrain, kInvalid, "[0,7)");
  plan = sound;
  plan.mutable_worker(0)->set_stage(1);
  ExpectRefused(plan, inputs, RoundKind::kTrain, kInvalid, "found 1, expected 0");
  plan = sound;
  plan.mutable_stage(0)->set_block_count(1);
  ExpectRefused(plan, inputs, RoundKind::kTrain, kInvalid, "plan.stage[0]");
  plan = sound;
  plan.mutable_worker(0)->set_evaluation_part(2);
  ExpectRefused(plan, inputs, RoundKind::kEvaluate, kInvalid, "evaluation_part");
  ExpectRefused(MakePlan(4, 4, 1, {false}), inputs, RoundKind::kTrain, kInvalid, "no block has");
  plan = sound;
  plan.add_stage();
  ExpectRefused(plan, inputs, RoundKind::kTrain, absl::StatusCode::kUnimplemented, "2 stages");
  EXPECT_EQ(NumLanes(sound, 2, 1).status().code(), kInvalid);
}

}  // namespace
}  // namespace sangam
