#include "common/plan/stage_memory.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "common/plan/worker_memory.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "proto/plan.pb.h"
#include "tests/common/plan/plan_fixtures.h"

namespace sangam {
namespace {

using testing::BlockSizes;
using testing::ChainLayout;
using testing::StagesOf;

struct Model {
  v1::ModelLayout layout;
  v1::ModelSpec spec;
};

Model RandomModel(std::mt19937* random) {
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>((*random)() % limit); };
  std::vector<BlockSizes> blocks(1 + below(9));
  for (BlockSizes& sizes : blocks) {
    sizes = {1 + below(9), below(2) * below(100), 0, below(100), below(100)};
  }
  blocks.front().parameters = 7;
  Model model;
  model.layout = ChainLayout(3, blocks);
  model.layout.set_terms_per_sample(below(4));
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    model.spec.add_block()->set_recompute(below(3) == 0);
    if (b > 1 && below(3) == 0) {
      model.layout.mutable_block(static_cast<int>(b))->set_skip_from(below(b - 1));
    }
    if (b > 0 && below(3) == 0) testing::Tie(b, &model.layout);
  }
  return model;
}

WorkerLoad RandomLoad(std::mt19937* random) {
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>((*random)() % limit); };
  WorkerLoad load;
  load.rows = 1 + below(5);
  load.lanes = 1 + below(4);
  load.credits = 1 + below(3);
  load.gradient_buffers = 1 + below(9);
  load.splits_backward = below(2) == 0;
  load.slots = {1 + below(6)};
  return load;
}

TEST(StageMemoryTest, IsTheMemoryOfAWorkerWithOneStage) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const Model model = RandomModel(&random);
    const WorkerLoad load = RandomLoad(&random);
    const StageMemory memory(model.layout, model.spec, load.splits_backward);
    const auto blocks = static_cast<uint32_t>(model.layout.block_size());
    for (uint32_t first = 0; first < blocks; ++first) {
      for (uint32_t end = first + 1; end <= blocks; ++end) {
        std::vector<v1::StagePlan> stage = StagesOf({end - first});
        stage[0].set_first_block(first);
        const WorkerMemory expected = MemoryOfStages(model.layout, model.spec, stage, load);
        const StageMemory::Bytes found = memory.Of(first, end, 0, load);
        ASSERT_EQ(found.total, expected.total()) << trial << " " << first << " " << end;
        ASSERT_EQ(found.within, expected.total() - expected.messages);
        // Never less with one more block on either side.
        const uint32_t before = first == 0 ? 0 : first - 1;
        ASSERT_LE(found.within, memory.Of(before, end, 0, load).within);
        ASSERT_LE(found.within, memory.Of(first, std::min(end + 1, blocks), 0, load).within);
      }
    }
  }
}

TEST(StageMemoryTest, EachChunkHasItsSlotsAndMessagesWaitForTheOneThatHasMost) {
  const v1::ModelLayout layout = ChainLayout(1, {{1}, {2, 0, 0, 100, 0}, {3}});
  const StageMemory memory(layout, v1::ModelSpec(), false);
  WorkerLoad load;
  load.credits = 2;
  load.slots = {5, 3};
  EXPECT_EQ(memory.Of(1, 2, 0, load).within, 5u * 100);
  EXPECT_EQ(memory.Of(1, 2, 1, load).within, 3u * 100);
  EXPECT_EQ(memory.Of(1, 2, 1, load).total, 3u * 100 + (2 + 2 + 5) * (4 + 8));
}

TEST(StageMemoryTest, WhatDoesNotFit64BitsIsTheLargestNumberAndHarmsNoOtherStage) {
  v1::ModelLayout layout = ChainLayout(1, {{1}, {2, 0, 0, 100, 0}, {3}});
  for (const int b : {0, 2}) layout.mutable_block(b)->set_activation_bytes(UINT64_MAX);
  const StageMemory memory(layout, v1::ModelSpec(), false);
  WorkerLoad load;
  load.slots = {2};
  EXPECT_EQ(memory.Of(0, 3, 0, load).total, UINT64_MAX);
  EXPECT_EQ(memory.Of(2, 3, 0, load).total, UINT64_MAX);
  EXPECT_EQ(memory.Of(1, 2, 0, load).within, 200u);
}

}  // namespace
}  // namespace sangam
