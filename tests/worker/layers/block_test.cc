#include "worker/layers/block.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/block_harness.h"
#include "tests/worker/layers/expect_near.h"
#include "worker/backend/backend.h"

// Counts what the calling thread allocates through operator new, in our code and in libraries.
namespace {
thread_local int64_t allocations = 0;
}  // namespace

// Not inlined: GCC takes one half of the pair for a mismatch with the other.
__attribute__((noinline)) void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t /*size*/) noexcept {
  std::free(memory);
}

namespace sangam {
namespace {

using testing::BlockLane;
using testing::BlockResult;
using ::testing::Each;
using testing::ExpectNear;
using ::testing::HasSubstr;
using testing::NumericalGradient;
using testing::RandomFloats;
using testing::ReferenceForward;
using testing::TestModel;
using testing::ToDouble;
using testing::Values;

constexpr uint32_t kFirstLayer = 5;

std::vector<std::string> Blocks() {
  return {
      "input_shape: 7 block { layer { linear { out_features: 5 } } layer { relu {} } "
      "layer { linear { out_features: 3 } } }",
      "input_shape: [2, 3] block { layer { flatten {} } layer { linear { out_features: 4 } } "
      "layer { gelu {} } layer { linear { out_features: 5 no_bias: true } } layer { tanh {} } }",
      "input_shape: 6 block { layer { linear { out_features: 8 no_bias: true } } layer { relu {} } "
      "layer { dropout { rate: 0.4 } } layer { linear { out_features: 2 } } }",
      "input_shape: 6 block { layer { tanh {} } layer { dropout { rate: 0.3 } } "
      "layer { linear { out_features: 4 } } layer { relu {} } }",
      "input_shape: 9 block { layer { gelu {} } layer { dropout { rate: 0.2 } } }",
      "input_shape: [3, 2] block { layer { flatten {} } }",
  };
}

PassContext Context(uint64_t first_position = 40) {
  PassContext context;
  context.seed = 11;
  context.step = 12;
  context.first_position = first_position;
  return context;
}

std::vector<float> Weights(const TestModel& model) {
  return RandomFloats(model.parameter_count(), 1);
}

std::unique_ptr<Block> NewBlock(const TestModel& model) {
  auto block = model.NewBlock(kFirstLayer);
  EXPECT_TRUE(block.ok()) << block.status();
  return *std::move(block);
}

class BlockTest : public ::testing::TestWithParam<std::string> {
 protected:
  BlockResult Run(BlockLane* lane, int64_t rows) const {
    return lane->Run(RandomFloats(rows * model_.input_size(), 2), model_.input_size(),
                     RandomFloats(rows * model_.output_size(), 3));
  }

  BlockLane NewLane(uint64_t max_rows = 20) const {
    BlockLane lane(*block_, max_rows, Weights(model_));
    lane.context = Context();
    return lane;
  }

  const TestModel model_ = TestModel(GetParam());
  const std::unique_ptr<Block> block_ = NewBlock(model_);
};

// Values and all gradients, against the plain loops and their numerical derivatives. Sums of at
// most 10 products twice over: 1e-5 is some 80 roundings.
TEST_P(BlockTest, ForwardAndGradientsAreTheReferences) {
  for (const int64_t rows : {1, 4, 7}) {
    BlockLane lane = NewLane();
    const BlockResult result = Run(&lane, rows);
    const Values x = ToDouble(RandomFloats(rows * model_.input_size(), 2));
    const Values dy = ToDouble(RandomFloats(rows * model_.output_size(), 3));
    const Values weights = ToDouble(Weights(model_));
    const auto forward = [&](const Values& at_x, const Values& at_weights) {
      return ReferenceForward(model_, kFirstLayer, lane.context, at_x, at_weights);
    };
    const auto dot = [&](const Values& y) {
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    };
    ExpectNear(result.y, forward(x, weights), 1e-5);
    ExpectNear(result.dx,
               NumericalGradient([&](const Values& at) { return dot(forward(at, weights)); }, x),
               1e-5);
    ExpectNear(result.dw,
               NumericalGradient([&](const Values& at) { return dot(forward(x, at)); }, weights),
               static_cast<double>(rows) * 1e-5);
  }
}

TEST_P(BlockTest, AccumulateAddsAndOtherwiseOverwrites) {
  BlockLane lane = NewLane();
  const BlockResult fresh = Run(&lane, 5);
  lane.before = RandomFloats(model_.parameter_count(), 8);
  EXPECT_EQ(Run(&lane, 5), fresh);
  lane.accumulate = true;
  const BlockResult added = Run(&lane, 5);
  for (size_t i = 0; i < fresh.dw.size(); ++i) {
    EXPECT_NEAR(added.dw[i], double{lane.before[i]} + fresh.dw[i], 1e-5) << i;
  }
}

TEST_P(BlockTest, InputGradientIsLeftOutWhenNotWanted) {
  BlockLane lane = NewLane();
  const BlockResult with = Run(&lane, 5);
  lane.want_input_gradient = false;
  const BlockResult without = Run(&lane, 5);
  EXPECT_TRUE(without.dx.empty());
  EXPECT_EQ(without.dw, with.dw);
}

TEST_P(BlockTest, NoRowsGiveNothingAndZeroGradients) {
  BlockLane lane = NewLane();
  lane.before = RandomFloats(model_.parameter_count(), 8, 1, 2);
  const BlockResult overwritten = Run(&lane, 0);
  EXPECT_TRUE(overwritten.y.empty());
  EXPECT_THAT(overwritten.dw, Each(0.0f));
  lane.accumulate = true;
  EXPECT_EQ(Run(&lane, 0).dw, lane.before);
}

TEST_P(BlockTest, BitsDoNotDependOnWhatTheStateDidBefore) {
  for (const int64_t rows : {1, 3, 20, 7}) {
    BlockLane used = NewLane();
    Run(&used, 20);
    Run(&used, 1);
    BlockLane fresh = NewLane(static_cast<uint64_t>(rows));
    EXPECT_EQ(Run(&used, rows), Run(&fresh, rows)) << rows << " rows";
  }
}

TEST_P(BlockTest, BitsDoNotDependOnTheThreadOrOnOtherLanes) {
  BlockLane here = NewLane();
  const BlockResult expected = Run(&here, 13);
  std::vector<BlockResult> results(4);
  std::vector<std::thread> lanes;
  for (BlockResult& result : results) {
    lanes.emplace_back([this, &result] {
      BlockLane lane = NewLane();
      for (int i = 0; i < 20; ++i) result = Run(&lane, 13);
    });
  }
  for (std::thread& lane : lanes) lane.join();
  for (const BlockResult& result : results) EXPECT_EQ(result, expected);
}

INSTANTIATE_TEST_SUITE_P(Blocks, BlockTest, ::testing::ValuesIn(Blocks()));

// With the widths of a real network, where products take other paths through the library.
TEST(WideBlockTest, BitsDoNotDependOnTheThreadOrOnOtherLanes) {
  const TestModel model(
      "input_shape: 784 block { layer { linear { out_features: 512 } } layer { relu {} } "
      "layer { linear { out_features: 512 } } layer { gelu {} } "
      "layer { linear { out_features: 10 } } }");
  const std::unique_ptr<Block> block = NewBlock(model);
  const std::vector<float> x = RandomFloats(32 * 784, 2);
  const std::vector<float> dy = RandomFloats(32 * 10, 3);
  const auto run = [&] {
    BlockLane lane(*block, 32, Weights(model));
    lane.context = Context();
    return lane.Run(x, 784, dy);
  };
  const BlockResult expected = run();
  std::vector<BlockResult> results(3);
  std::vector<std::thread> lanes;
  for (BlockResult& result : results) lanes.emplace_back([&] { result = run(); });
  for (std::thread& lane : lanes) lane.join();
  for (const BlockResult& result : results) EXPECT_EQ(result, expected);
}

TEST(BlockFusionTest, LinearWithReluHasTheBitsOfTheTwo) {
  const std::string linear = "layer { linear { out_features: 33 } }";
  const TestModel fused_model(
      absl::StrCat("input_shape: 20 block { ", linear, " layer { relu {} } }"));
  const TestModel linear_model(absl::StrCat("input_shape: 20 block { ", linear, " }"));
  const TestModel relu_model("input_shape: 33 block { layer { relu {} } }");
  const std::unique_ptr<Block> fused = NewBlock(fused_model);
  const std::unique_ptr<Block> first = NewBlock(linear_model);
  const std::unique_ptr<Block> second = NewBlock(relu_model);
  const std::vector<float> weights = Weights(fused_model);
  const std::vector<float> x = RandomFloats(9 * 20, 2);
  const std::vector<float> dy = RandomFloats(9 * 33, 3);

  BlockLane fused_lane(*fused, 9, weights);
  const BlockResult expected = fused_lane.Run(x, 20, dy);
  BlockLane first_lane(*first, 9, weights);
  BlockLane second_lane(*second, 9, {});
  const std::vector<float> z = first_lane.Run(x, 20, dy).y;
  const BlockResult relu = second_lane.Run(z, 33, dy);
  EXPECT_EQ(relu.y, expected.y);
  const BlockResult result = first_lane.Run(x, 20, relu.dx);
  EXPECT_EQ(result.dx, expected.dx);
  EXPECT_EQ(result.dw, expected.dw);
}

TEST(BlockDropoutTest, DropsTheSameHoweverTheMicroBatchIsCut) {
  const TestModel model("input_shape: 30 block { layer { dropout { rate: 0.5 } } }");
  const std::unique_ptr<Block> block = NewBlock(model);
  BlockLane lane(*block, 10, {});
  lane.context = Context(200);
  const std::vector<float> x = RandomFloats(10 * 30, 2);
  const BlockResult whole = lane.Run(x, 30, x);
  std::vector<float> pieces;
  for (const auto& [first, rows] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {3, 6}, {9, 1}}) {
    lane.context = Context(200 + static_cast<uint64_t>(first));
    const std::vector<float> piece(x.begin() + first * 30, x.begin() + (first + rows) * 30);
    const std::vector<float> y = lane.Run(piece, 30, piece).y;
    pieces.insert(pieces.end(), y.begin(), y.end());
  }
  EXPECT_EQ(pieces, whole.y);
}

TEST(BlockDropoutTest, EvaluationDropsNothing) {
  const TestModel model("input_shape: 30 block { layer { dropout { rate: 0.5 } } }");
  const std::unique_ptr<Block> block = NewBlock(model);
  BlockLane lane(*block, 4, {});
  PassContext context = Context();
  context.training = false;
  const std::vector<float> x = RandomFloats(4 * 30, 2);
  const auto y = block->Forward(lane.backend(), context, {x.data(), 4, 30}, nullptr, lane.state());
  ASSERT_TRUE(y.ok()) << y.status();
  std::vector<float> values(x.size());
  ASSERT_TRUE(lane.backend()->Download(*y, values.data()).ok());
  EXPECT_EQ(values, x);
}

TEST(BlockMemoryTest, PassesAllocateNothing) {
  const TestModel model(
      "input_shape: 512 block { layer { linear { out_features: 512 } } layer { relu {} } "
      "layer { dropout { rate: 0.5 } } layer { linear { out_features: 512 } } layer { gelu {} } "
      "layer { linear { out_features: 10 } } layer { tanh {} } }");
  const std::unique_ptr<Block> block = NewBlock(model);
  const std::vector<float> weights = Weights(model);
  BlockLane lane(*block, 32, weights);
  const PassContext context = Context();
  const std::vector<float> x = RandomFloats(32 * 512, 2);
  const std::vector<float> dy = RandomFloats(32 * 10, 3);
  std::vector<float> gradient(weights.size());
  const auto pass = [&](int64_t rows) {
    const auto y = block->Forward(lane.backend(), context, {x.data(), rows, 512}, weights.data(),
                                  lane.state());
    const auto dx = block->Backward(lane.backend(), context, {dy.data(), rows, 10}, weights.data(),
                                    true, true, gradient.data(), lane.state());
    ASSERT_TRUE(y.ok() && dx.ok()) << y.status() << dx.status();
  };
  pass(32);
  pass(7);
  const int64_t before = allocations;
  for (const int64_t rows : {32, 7, 0, 1, 32}) pass(rows);
  EXPECT_EQ(allocations - before, 0);
}

class BlockErrorsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ConstMatrix> Forward(int64_t rows, int64_t cols, const float* weights,
                                      BlockState* state, bool training = true) {
    PassContext context = Context();
    context.training = training;
    return block_->Forward(lane_.backend(), context, {x_.data(), rows, cols}, weights, state);
  }
  absl::StatusOr<ConstMatrix> Backward(int64_t rows, int64_t cols, float* gradient) {
    return block_->Backward(lane_.backend(), Context(), {x_.data(), rows, cols}, weights_.data(),
                            false, true, gradient, lane_.state());
  }
  static void ExpectRefused(const absl::StatusOr<ConstMatrix>& result, const std::string& message) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(message));
  }

  const TestModel model_ =
      TestModel("input_shape: 7 block { layer { linear { out_features: 5 } } }");
  const std::unique_ptr<Block> block_ = NewBlock(model_);
  const std::vector<float> weights_ = Weights(model_);
  const std::vector<float> x_ = RandomFloats(100, 2);
  BlockLane lane_ = BlockLane(*block_, 4, weights_);
};

TEST_F(BlockErrorsTest, ForwardRefusesWhatDoesNotFit) {
  ExpectRefused(Forward(4, 6, weights_.data(), lane_.state()),
                "block \"block0\": the input is [4, 6], expected [4, 7]");
  ExpectRefused(Forward(5, 7, weights_.data(), lane_.state()), "found 5 rows, expected at most 4");
  ExpectRefused(Forward(-1, 7, weights_.data(), lane_.state()), "found -1 rows");
  ExpectRefused(Forward(4, 7, nullptr, lane_.state()), "there are no weights");
  ExpectRefused(Forward(4, 7, weights_.data(), nullptr), "the state is of another block");
  const std::unique_ptr<Block> other = NewBlock(model_);
  BlockLane other_lane(*other, 4, weights_);
  ExpectRefused(Forward(4, 7, weights_.data(), other_lane.state()),
                "the state is of another block");
}

TEST_F(BlockErrorsTest, BackwardNeedsItsForward) {
  std::vector<float> gradient(weights_.size());
  EXPECT_EQ(Backward(4, 5, gradient.data()).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Forward(4, 7, weights_.data(), lane_.state()).ok());
  EXPECT_TRUE(Backward(4, 5, gradient.data()).ok());
  ExpectRefused(Backward(3, 5, gradient.data()),
                "the gradient of the output is [3, 5], expected [4, 5]");
  ExpectRefused(Backward(4, 5, nullptr), "no place for their gradient");
  ASSERT_TRUE(Forward(4, 7, weights_.data(), lane_.state(), /*training=*/false).ok());
  EXPECT_EQ(Backward(4, 5, gradient.data()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BlockErrorsTest, StateThatFitsNoMemory) {
  for (const uint64_t rows : {uint64_t{1} << 60, std::numeric_limits<uint64_t>::max()}) {
    const absl::Status status = block_->NewState(lane_.backend(), rows).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  }
}

TEST_F(BlockErrorsTest, LayersThatDoNotFitTheLayout) {
  const auto message = [&](const v1::BlockSpec& spec, const v1::BlockLayout& layout,
                           const v1::SegmentLayout* segment) {
    const absl::Status status = Block::Create(spec, layout, segment, 0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  const v1::BlockSpec& spec = model_.spec.block(0);
  const v1::BlockLayout& layout = model_.layout.block(0);
  EXPECT_THAT(message(spec, layout, nullptr), HasSubstr("no parameter block0.0.weight"));

  v1::SegmentLayout segment = *model_.segment();
  segment.mutable_parameter(0)->set_shape(0, 6);
  EXPECT_THAT(message(spec, layout, &segment), HasSubstr("has shape [6,7], expected [5,7]"));
  segment = *model_.segment();
  segment.mutable_parameter(1)->set_offset(36);
  EXPECT_THAT(message(spec, layout, &segment), HasSubstr("ends beyond its segment of 40"));
  segment = *model_.segment();
  segment.add_parameter()->set_name("block0.7.weight");
  EXPECT_THAT(message(spec, layout, &segment), HasSubstr("has 3 parameters, the layers use 2"));

  v1::BlockLayout other = layout;
  other.set_output_shape(0, 6);
  EXPECT_THAT(message(spec, other, model_.segment()), HasSubstr("the layers give [5]"));
  v1::BlockSpec empty_layer;
  empty_layer.add_layer();
  EXPECT_FALSE(message(empty_layer, layout, nullptr).empty());
}

}  // namespace
}  // namespace sangam
