#include "worker/core/step_program.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/plan/batch_cut.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "worker/core/instruction.h"
#include "worker/core/lane_deal.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

// How a test's plan spreads its blocks.
struct Spread {
  uint32_t workers = 1;
  uint32_t ranks = 1;  // divides the workers
  uint32_t chunks = 1;
  v1::Schedule schedule = v1::ONE_F_ONE_B;
};

// A plan over blocks of which those in `trained` have parameters, cut into stages of nearly equal
// numbers of blocks.
v1::Plan MakePlan(uint32_t micro_batches, uint32_t shares, const Spread& spread,
                  const std::vector<bool>& trained) {
  v1::Plan plan;
  plan.set_micro_batches(micro_batches);
  plan.set_shares(shares);
  plan.set_ranks(spread.ranks);
  plan.set_schedule(spread.schedule);
  plan.set_lanes(1);
  for (uint32_t s = 0; s < spread.ranks * spread.chunks; ++s) {
    const IndexRange part = EvenPart(trained.size(), spread.ranks * spread.chunks, s);
    plan.add_stage()->set_first_block(static_cast<uint32_t>(part.begin));
    plan.mutable_stage(static_cast<int>(s))->set_block_count(static_cast<uint32_t>(part.size()));
  }
  for (const bool has_weights : trained) {
    v1::BlockLayout* block = plan.mutable_layout()->add_block();
    block->set_segment(has_weights ? plan.layout().segment_size() : -1);
    if (!has_weights) continue;
    v1::SegmentLayout* segment = plan.mutable_layout()->add_segment();
    segment->set_block(static_cast<uint32_t>(plan.layout().block_size() - 1));
    segment->add_use(segment->block());
  }
  const uint32_t pipelines = spread.workers / spread.ranks;
  for (uint32_t w = 0; w < spread.workers; ++w) {
    v1::WorkerPlan* worker = plan.add_worker();
    worker->set_name(absl::StrCat("w", w));
    worker->set_rank(w % spread.ranks);
    const uint32_t pipeline = w / spread.ranks;
    const IndexRange part = EvenPart(shares, pipelines, pipeline);
    worker->mutable_shares()->set_begin(static_cast<uint32_t>(part.begin));
    worker->mutable_shares()->set_end(static_cast<uint32_t>(part.end));
    worker->set_evaluation_part(pipeline);
    worker->set_evaluation_parts(pipelines);
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
  const v1::Plan plan = MakePlan(3, 2, {}, {false, true, true});
  EXPECT_EQ(ToString(Build(plan, {}, RoundKind::kTrain)),
            "lane 0\n"
            "  LoadBatch mb 0\n"
            "  Forward b0 mb 0\n"
            "  AwaitWeights b1\n"
            "  Forward b1 mb 0\n"
            "  AwaitWeights b2\n"
            "  Forward b2 mb 0\n"
            "  Loss mb 0\n"
            "  EndShare share 0\n"
            "  Backward b2 mb 0\n"
            "  EmitGradient b2 share 0\n"
            "  Backward b1 mb 0 weights only\n"
            "  EmitGradient b1 share 0\n"
            "  Release mb 0\n"
            "  LoadBatch mb 1\n"
            "  Forward b0 mb 1\n"
            "  Forward b1 mb 1\n"
            "  Forward b2 mb 1\n"
            "  Loss mb 1\n"
            "  Backward b2 mb 1\n"
            "  Backward b1 mb 1 weights only\n"
            "  Release mb 1\n"
            "  LoadBatch mb 2\n"
            "  Forward b0 mb 2\n"
            "  Forward b1 mb 2\n"
            "  Forward b2 mb 2\n"
            "  Loss mb 2\n"
            "  EndShare share 1\n"
            "  Backward b2 mb 2\n"
            "  EmitGradient b2 share 1\n"
            "  Backward b1 mb 2 weights only\n"
            "  EmitGradient b1 share 1\n"
            "  Release mb 2\n");
}

TEST(StepProgramTest, SharesThatAreComputedTogetherAreNodesOfTheTree) {
  const v1::Plan plan = MakePlan(8, 8, {}, {true, true});
  ProgramInputs inputs;
  inputs.group = 8;
  EXPECT_EQ(ToString(Build(plan, inputs, RoundKind::kTrain)),
            "lane 0\n"
            "  LoadBatch mb 0-7\n"
            "  AwaitWeights b0\n"
            "  Forward b0 mb 0-7\n"
            "  AwaitWeights b1\n"
            "  Forward b1 mb 0-7\n"
            "  Loss mb 0\n"
            "  EndShare share 0\n"
            "  Loss mb 1\n"
            "  EndShare share 1\n"
            "  Loss mb 2\n"
            "  EndShare share 2\n"
            "  Loss mb 3\n"
            "  EndShare share 3\n"
            "  Loss mb 4\n"
            "  EndShare share 4\n"
            "  Loss mb 5\n"
            "  EndShare share 5\n"
            "  Loss mb 6\n"
            "  EndShare share 6\n"
            "  Loss mb 7\n"
            "  EndShare share 7\n"
            "  Backward b1 mb 0-7\n"
            "  EmitGradient b1 share 0-7\n"
            "  Backward b0 mb 0-7 weights only\n"
            "  EmitGradient b0 share 0-7\n"
            "  Release mb 0-7\n");
  const auto emitted = [&](const v1::Plan& of) {
    std::string text;
    for (const auto& list : Build(of, inputs, RoundKind::kTrain).lanes) {
      for (const Instruction& i : list) {
        if (i.op == Op::kEmitGradient && i.block == 0) {
          absl::StrAppend(&text, " ", i.index, "+", i.count);
        }
      }
      absl::StrAppend(&text, ";");
    }
    return text;
  };
  inputs.group = 3;
  EXPECT_EQ(emitted(plan), " 0+2 2+2 4+2 6+2;");
  inputs.group = 8;
  inputs.lanes = 2;
  EXPECT_EQ(emitted(plan), " 0+4; 4+4;");
  inputs.lanes = 3;
  EXPECT_EQ(emitted(plan), " 0+2; 2+2 4+1; 5+1 6+2;");
  // Micro-batches that are no shares of their own, and stages of a pipeline, go one by one.
  inputs.lanes = 1;
  EXPECT_EQ(emitted(MakePlan(4, 2, {}, {true, true})), " 0+1 1+1;");
  EXPECT_EQ(emitted(MakePlan(2, 2, {2, 2}, {true, true})), " 0+1 1+1;");
}

TEST(StepProgramTest, StagesOfAPipelineReceiveAndSend) {
  // b0 adds its output to the input of b3, past b1 and b2.
  v1::Plan plan = MakePlan(2, 2, {3, 3}, {true, true, false, true});
  plan.mutable_layout()->mutable_block(3)->set_skip_from(0);
  ProgramInputs inputs;
  EXPECT_EQ(ToString(Build(plan, inputs, RoundKind::kTrain)),
            "lane 0\n"
            "  LoadBatch mb 0\n"
            "  AwaitWeights b0\n"
            "  Forward b0 mb 0\n"
            "  Send boundary 0 mb 0\n"
            "  Send boundary 7 mb 0\n"
            "  LoadBatch mb 1\n"
            "  Forward b0 mb 1\n"
            "  Send boundary 0 mb 1\n"
            "  Send boundary 7 mb 1\n"
            "  ReceiveGradient boundary 0 mb 0\n"
            "  ReceiveGradient boundary 7 mb 0\n"
            "  Backward b0 mb 0 weights only\n"
            "  EmitGradient b0 share 0\n"
            "  Release mb 0\n"
            "  ReceiveGradient boundary 0 mb 1\n"
            "  ReceiveGradient boundary 7 mb 1\n"
            "  Backward b0 mb 1 weights only\n"
            "  EmitGradient b0 share 1\n"
            "  Release mb 1\n");
  EXPECT_EQ(SlotsOf(Build(plan, inputs, RoundKind::kTrain), 1), std::vector<uint32_t>({2}));
  inputs.worker = 2;
  EXPECT_EQ(ToString(Build(plan, inputs, RoundKind::kTrain)),
            "lane 0\n"
            "  LoadBatch mb 0\n"
            "  Receive boundary 1 mb 0\n"
            "  Receive boundary 7 mb 0\n"
            "  Forward b2 mb 0\n"
            "  AwaitWeights b3\n"
            "  Forward b3 mb 0\n"
            "  Loss mb 0\n"
            "  EndShare share 0\n"
            "  Backward b3 mb 0\n"
            "  EmitGradient b3 share 0\n"
            "  Backward b2 mb 0\n"
            "  SendGradient boundary 1 mb 0\n"
            "  SendGradient boundary 7 mb 0\n"
            "  Release mb 0\n"
            "  LoadBatch mb 1\n"
            "  Receive boundary 1 mb 1\n"
            "  Receive boundary 7 mb 1\n"
            "  Forward b2 mb 1\n"
            "  Forward b3 mb 1\n"
            "  Loss mb 1\n"
            "  EndShare share 1\n"
            "  Backward b3 mb 1\n"
            "  EmitGradient b3 share 1\n"
            "  Backward b2 mb 1\n"
            "  SendGradient boundary 1 mb 1\n"
            "  SendGradient boundary 7 mb 1\n"
            "  Release mb 1\n");
  // The middle one neither loads nor scores.
  inputs.worker = 1;
  inputs.evaluation_chunks = 1;
  EXPECT_EQ(ToString(Build(plan, inputs, RoundKind::kEvaluate)),
            "lane 0\n"
            "  Receive boundary 0 mb 0\n"
            "  AwaitWeights b1\n"
            "  Forward b1 mb 0\n"
            "  Send boundary 1 mb 0\n"
            "  Release mb 0\n");
}

TEST(StepProgramTest, BackwardIsSplitButWhereABlockRecomputes) {
  const v1::Plan plan = MakePlan(2, 1, {2, 2, 1, v1::ZERO_BUBBLE}, {true, true, true, true});
  ProgramInputs inputs;
  inputs.worker = 1;
  inputs.recompute = {false, false, true, false};
  EXPECT_EQ(ToString(Build(plan, inputs, RoundKind::kTrain)),
            "lane 0\n"
            "  LoadBatch mb 0\n"
            "  Receive boundary 1 mb 0\n"
            "  AwaitWeights b2\n"
            "  Forward b2 mb 0\n"
            "  AwaitWeights b3\n"
            "  Forward b3 mb 0\n"
            "  Loss mb 0\n"
            "  BackwardInput b3 mb 0\n"
            "  Backward b2 mb 0\n"
            "  SendGradient boundary 1 mb 0\n"
            "  LoadBatch mb 1\n"
            "  Receive boundary 1 mb 1\n"
            "  Forward b2 mb 1\n"
            "  Forward b3 mb 1\n"
            "  Loss mb 1\n"
            "  EndShare share 0\n"
            "  BackwardInput b3 mb 1\n"
            "  Backward b2 mb 1\n"
            "  EmitGradient b2 share 0\n"
            "  SendGradient boundary 1 mb 1\n"
            "  BackwardWeights b3 mb 0\n"
            "  Release mb 0\n"
            "  BackwardWeights b3 mb 1\n"
            "  EmitGradient b3 share 0\n"
            "  Release mb 1\n");
}

TEST(StepProgramTest, AStageBelowAllParametersOnlyGoesForward) {
  const v1::Plan plan = MakePlan(2, 2, {2, 2}, {false, false, true, true});
  EXPECT_EQ(ToString(Build(plan, {}, RoundKind::kTrain)),
            "lane 0\n"
            "  LoadBatch mb 0\n"
            "  Forward b0 mb 0\n"
            "  Forward b1 mb 0\n"
            "  Send boundary 1 mb 0\n"
            "  Release mb 0\n"
            "  LoadBatch mb 1\n"
            "  Forward b0 mb 1\n"
            "  Forward b1 mb 1\n"
            "  Send boundary 1 mb 1\n"
            "  Release mb 1\n");
  ProgramInputs inputs;
  inputs.worker = 1;
  EXPECT_THAT(ToString(Build(plan, inputs, RoundKind::kTrain)),
              ::testing::Not(HasSubstr("SendGradient")));
}

TEST(StepProgramTest, ListsDoNotGrowWithTheTestSet) {
  const v1::Plan plan = MakePlan(6, 6, {3}, {true, true});
  constexpr uint64_t kChunks = 100'001;
  std::vector<int> scored(kChunks, 0);
  for (uint32_t worker = 0; worker < 3; ++worker) {
    ProgramInputs inputs;
    inputs.worker = worker;
    inputs.lanes = 2;
    inputs.evaluation_chunks = kChunks;
    const StepProgram program = Build(plan, inputs, RoundKind::kEvaluate);
    const LaneDeal deal(plan, worker, inputs.lanes);
    EXPECT_GT(program.windows, 1);
    for (uint32_t lane = 0; lane < inputs.lanes; ++lane) {
      EXPECT_LT(program.lanes[lane].size(), 100'000);
      int ends = 0;
      for (uint32_t window = 0; window < program.windows; ++window) {
        for (const Instruction& listed : program.lanes[lane]) {
          const std::optional<Instruction> instruction = InWindow(program, listed, window);
          if (!instruction.has_value()) continue;
          if (instruction->op == Op::kEndEvaluation) ++ends;
          if (instruction->op != Op::kScore) continue;
          ++scored[instruction->index];
          EXPECT_EQ(deal.LaneOfChunk(instruction->index).value(), lane);
        }
      }
      EXPECT_EQ(ends, 1);
    }
  }
  EXPECT_EQ(std::count(scored.begin(), scored.end(), 1), kChunks);
}

TEST(StepProgramTest, EvaluationDealsChunksInTurn) {
  const v1::Plan plan = MakePlan(4, 4, {2}, {true});
  ProgramInputs inputs;
  inputs.worker = 1;
  inputs.lanes = 2;
  inputs.evaluation_chunks = 7;
  EXPECT_EQ(ToString(Build(plan, inputs, RoundKind::kEvaluate)),
            "lane 0\n"
            "  LoadBatch mb 1\n"
            "  AwaitWeights b0\n"
            "  Forward b0 mb 1\n"
            "  Score mb 1\n"
            "  Release mb 1\n"
            "  LoadBatch mb 5\n"
            "  Forward b0 mb 5\n"
            "  Score mb 5\n"
            "  Release mb 5\n"
            "  EndEvaluation\n"
            "lane 1\n"
            "  LoadBatch mb 3\n"
            "  AwaitWeights b0\n"
            "  Forward b0 mb 3\n"
            "  Score mb 3\n"
            "  Release mb 3\n"
            "  EndEvaluation\n");
}

TEST(StepProgramTest, FinishAwaitsEveryBlocksWeightsInEveryLane) {
  const v1::Plan plan = MakePlan(4, 4, {}, {true, false, true});
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

// What all lists of a plan together must satisfy in a training step.
class StepChecker {
 public:
  explicit StepChecker(const v1::Plan& plan) : plan_(plan) {}

  void Check(const std::vector<Instruction>& list) {
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> slots;  // by chunk, slot: micro-batch
    std::map<uint32_t, int64_t> last;                         // by block: newest micro-batch
    std::set<uint32_t> awaited;
    for (const Instruction& i : list) {
      const std::pair<uint32_t, uint32_t> place(i.chunk, i.slot);
      switch (i.op) {
        case Op::kAwaitWeights:
          EXPECT_TRUE(awaited.insert(i.block).second);
          continue;
        case Op::kEmitGradient:
          CheckShareComplete(i.block, i.index);
          ++emitted_[{i.block, i.index}];
          continue;
        case Op::kEndShare:
          ++ended_[i.index];
          continue;
        default:
          break;
      }
      const auto [slot, opened] = slots.emplace(place, i.index);
      ASSERT_EQ(slot->second, i.index) << "two micro-batches in a slot: " << ToString(i);
      switch (i.op) {
        case Op::kForward:
          EXPECT_TRUE(!HasWeights(i.block) || awaited.count(i.block) == 1);
          ++forward_[{i.block, i.index}];
          break;
        case Op::kSend:
        case Op::kSendGradient:
          ++sent_[{i.boundary, i.index, i.op == Op::kSendGradient}];
          break;
        case Op::kReceive:
        case Op::kReceiveGradient:
          ++received_[{i.boundary, i.index, i.op == Op::kReceiveGradient}];
          break;
        case Op::kBackward:
        case Op::kBackwardWeights:
          EXPECT_LT(last.emplace(i.block, -1).first->second, static_cast<int64_t>(i.index))
              << "gradients add up in the order of the micro-batches";
          last[i.block] = i.index;
          backward_[i.block].push_back(i.index);
          break;
        case Op::kRelease:
          slots.erase(place);
          break;
        default:
          break;
      }
    }
    EXPECT_TRUE(slots.empty()) << "everything is let go";
  }

  // After all lists.
  void CheckWhole() {
    const uint32_t blocks = static_cast<uint32_t>(plan_.layout().block_size());
    size_t trained = 0;
    for (uint32_t b = 0; b < blocks; ++b) trained += HasWeights(b) ? 1 : 0;
    EXPECT_EQ(forward_.size(), size_t{blocks} * plan_.micro_batches());
    EXPECT_EQ(ended_.size(), plan_.shares());
    EXPECT_EQ(emitted_.size(), plan_.shares() * trained);
    EXPECT_EQ(sent_, received_);
    for (const auto& [key, times] : forward_) ASSERT_EQ(times, 1);
    for (const auto& [key, times] : ended_) ASSERT_EQ(times, 1);
    for (const auto& [key, times] : emitted_) ASSERT_EQ(times, 1);
    for (const auto& [key, times] : sent_) ASSERT_EQ(times, 1);
  }

 private:
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
  std::map<uint32_t, std::vector<uint32_t>> backward_;  // by block
  std::map<std::pair<uint32_t, uint32_t>, int> forward_;
  std::map<std::pair<uint32_t, uint32_t>, int> emitted_;
  std::map<uint32_t, int> ended_;
  // By boundary, micro-batch, backward.
  std::map<std::tuple<uint32_t, uint32_t, bool>, int> sent_;
  std::map<std::tuple<uint32_t, uint32_t, bool>, int> received_;
};

void CheckStep(const v1::Plan& plan, uint32_t threads) {
  StepChecker checker(plan);
  for (uint32_t i = 0; i < static_cast<uint32_t>(plan.worker_size()); ++i) {
    const auto lanes = NumLanes(plan, i, threads);
    ASSERT_TRUE(lanes.ok()) << lanes.status();
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
  checker.CheckWhole();
}

TEST(StepProgramTest, EveryPieceOfTheBatchIsComputedOnceWhateverTheCluster) {
  const std::vector<std::vector<bool>> models = {{true}, {false, true}, {true, false, true, true}};
  for (const std::vector<bool>& model : models) {
    for (uint32_t m = 1; m <= 9; ++m) {
      for (uint32_t s = 1; s <= m; ++s) {
        for (uint32_t w = 1; w <= 5; ++w) {
          for (uint32_t threads = 1; threads <= 4; ++threads) {
            CheckStep(MakePlan(m, s, {w}, model), threads);
          }
        }
      }
    }
  }
}

TEST(StepProgramTest, EveryPieceIsComputedOnceUnderEverySchedule) {
  const std::vector<bool> model = {true, false, true, true, true, true, false, true};
  for (const v1::Schedule schedule :
       {v1::GPIPE, v1::ONE_F_ONE_B, v1::INTERLEAVED, v1::ZERO_BUBBLE, v1::EAGER_ONE_F_ONE_B}) {
    for (uint32_t ranks = 2; ranks <= 4; ++ranks) {
      const uint32_t chunks = schedule == v1::INTERLEAVED ? 2 : 1;
      for (uint32_t pipelines = 1; pipelines <= 2; ++pipelines) {
        for (const uint32_t m : {1u, 2u, 3u, 8u, 13u}) {
          for (const uint32_t s : {1u, (m + 1) / 2, m}) {
            v1::Plan plan = MakePlan(m, s, {ranks * pipelines, ranks, chunks, schedule}, model);
            plan.mutable_layout()->mutable_block(6)->set_skip_from(1);
            CheckStep(plan, 1);
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
        const v1::Plan plan = MakePlan(12, 12, {w}, {true, true});
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
  const v1::Plan plan = MakePlan(8, 5, {2}, {true});  // shares [0,2) and [2,5)
  EXPECT_EQ(NumLanes(plan, 0, 1).value(), 1);
  EXPECT_EQ(NumLanes(plan, 0, 8).value(), 2);
  EXPECT_EQ(NumLanes(plan, 1, 8).value(), 3);
  EXPECT_EQ(NumLanes(plan, 1, 0).value(), 1);
  EXPECT_EQ(NumLanes(MakePlan(1, 1, {2}, {true}), 0, 4).value(), 0);  // no shares
  // In a pipeline the plan says, because the neighbours' lanes must match.
  v1::Plan pipeline = MakePlan(8, 5, {2, 2}, {true, true});
  pipeline.set_lanes(3);
  EXPECT_EQ(NumLanes(pipeline, 0, 1).value(), 3);
  pipeline.set_lanes(6);
  EXPECT_THAT(std::string(NumLanes(pipeline, 0, 1).status().message()),
              HasSubstr("plan.lanes: found 6"));
}

// Changes one thing of a sound plan and expects a refusal that names it.
void ExpectRefused(const v1::Plan& plan, const ProgramInputs& inputs, RoundKind kind,
                   absl::StatusCode code, const std::string& words) {
  const auto program = BuildStepProgram(plan, inputs, kind);
  EXPECT_EQ(program.status().code(), code) << program.status();
  EXPECT_THAT(std::string(program.status().message()), HasSubstr(words));
}

TEST(StepProgramTest, RefusesPlansThatContradictThemselves) {
  const v1::Plan sound = MakePlan(4, 4, {2}, {true, true});
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
  plan.mutable_worker(0)->set_rank(1);
  ExpectRefused(plan, inputs, RoundKind::kTrain, kInvalid, "found 1, expected less than 1");
  plan = sound;
  plan.mutable_stage(0)->set_block_count(1);
  ExpectRefused(plan, inputs, RoundKind::kTrain, kInvalid, "plan.stage");
  plan = sound;
  plan.mutable_worker(0)->set_evaluation_part(2);
  ExpectRefused(plan, inputs, RoundKind::kEvaluate, kInvalid, "evaluation_part");
  ExpectRefused(MakePlan(4, 4, {}, {false}), inputs, RoundKind::kTrain, kInvalid, "no block has");
  plan = sound;
  plan.add_stage();
  ExpectRefused(plan, inputs, RoundKind::kTrain, kInvalid, "plan.stage[1]");
  plan = sound;
  plan.set_ranks(0);
  ExpectRefused(plan, inputs, RoundKind::kTrain, kInvalid, "plan.ranks: found 0");
  EXPECT_EQ(NumLanes(sound, 2, 1).status().code(), kInvalid);
}

}  // namespace
}  // namespace sangam
