#include "worker/layers/block.h"

#include <algorithm>
#include <cmath>
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
#include "common/model/expand_layers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "tests/worker/layers/block_harness.h"
#include "tests/worker/layers/block_reference.h"
#include "tests/worker/layers/expect_near.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/pass_context.h"

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
      "input_shape: [3, 4] block { layer { linear { out_features: 5 } } layer { relu {} } "
      "layer { rms_norm { epsilon: 0.1 } } layer { position_embedding {} } layer { tanh {} } "
      "layer { linear { out_features: 2 no_bias: true } } layer { dropout { rate: 0.3 } } }",
      "input_shape: 5 block { layer { residual { layer { tanh {} } } } layer { rms_norm {} } "
      "layer { residual { layer { flatten {} } } } layer { residual { layer { residual { "
      "layer { linear { out_features: 5 } } layer { relu {} } } } layer { dropout { rate: 0.5 } } "
      "} } layer { residual { layer { dropout { rate: 0.2 } } } } }",
      "input_shape: [5, 4] block { layer { causal_attention { heads: 2 } } layer { flatten {} } }",
      "input_shape: [4, 8] block { layer { causal_attention { heads: 2 rotary: true "
      "rotary_base: 50 no_bias: true } } layer { dropout { rate: 0.2 } } }",
      "input_shape: [3, 4] block { layer { transformer { heads: 2 dropout: 0.25 } } }",
      "input_shape: [3, 4] block { layer { position_embedding {} } "
      "layer { transformer { heads: 1 hidden: 6 rotary: true no_bias: true } } }",
      "input_shape: [6, 5, 3] block { layer { conv2d { out_channels: 4 kernel_height: 3 padding: 1 "
      "} } layer { relu {} } layer { max_pool2d { kernel: 2 } } layer { conv2d { out_channels: 2 "
      "kernel_height: 2 kernel_width: 1 no_bias: true } } layer { sigmoid {} } }",
      "input_shape: [7, 6, 2] block { layer { conv2d { out_channels: 3 kernel_height: 3 "
      "kernel_width: 2 stride: 2 padding: 1 no_bias: true } } layer { relu {} } "
      "layer { average_pool2d {} } layer { flatten {} } layer { linear { out_features: 2 } } }",
      "input_shape: [5, 4, 2] block { layer { average_pool2d { kernel: 3 stride: 2 padding: 1 } } "
      "layer { max_pool2d { kernel: 3 stride: 1 padding: 1 } } }",
      "input_shape: [3, 2, 3] block { layer { batch_norm { epsilon: 0.1 } } layer { tanh {} } "
      "layer { dropout { rate: 0.2 } } layer { batch_norm { epsilon: 0.5 momentum: 0.5 } } }",
      "input_shape: 5 block { layer { linear { out_features: 4 } } "
      "layer { batch_norm { epsilon: 0.1 } } layer { relu {} } }",
      "input_shape: [3, 6] block { layer { layer_norm { epsilon: 0.1 } } layer { sigmoid {} } "
      "layer { layer_norm { epsilon: 0.2 } } }",
      "input_shape: [4, 4, 2] block { layer { concat { branch {} "
      "branch { layer { conv2d { out_channels: 3 kernel_height: 3 padding: 1 } } "
      "layer { relu {} } } branch { layer { dropout { rate: 0.3 } } layer { batch_norm { "
      "epsilon: 0.1 } } } } } layer { concat { branch { layer { max_pool2d { kernel: 2 } } } "
      "branch { layer { average_pool2d { kernel: 2 } } } } } }",
      "input_shape: [2, 3] block { layer { concat { branch { layer { tanh {} } } branch {} "
      "branch { layer { dropout {} } } } } }",
      "input_shape: [4, 4, 2] block { layer { residual { layer { conv2d { out_channels: 3 "
      "kernel_height: 3 stride: 2 padding: 1 } } layer { batch_norm { epsilon: 0.1 } } "
      "shortcut { conv2d { out_channels: 3 kernel_height: 1 stride: 2 } } "
      "shortcut { batch_norm { epsilon: 0.1 } } } } layer { relu {} } }",
      "input_shape: [3, 4] block { layer { residual { layer { tanh {} } "
      "shortcut { transformer { heads: 2 dropout: 0.25 } } } } }",
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
  std::vector<float> weights = RandomFloats(model.parameter_count(), 1);
  if (model.segment() == nullptr) return weights;
  for (const v1::ParameterLayout& parameter : model.segment()->parameter()) {
    if (parameter.average_rate() == 0) continue;
    // Variances are positive.
    for (uint64_t e = 0; e < parameter.element_count(); ++e) {
      float& value = weights[parameter.offset() + e];
      value = std::abs(value) + 0.5f;
    }
  }
  return weights;
}

std::unique_ptr<Block> NewBlock(const TestModel& model) {
  auto block = model.NewBlock();
  EXPECT_TRUE(block.ok()) << block.status();
  return *std::move(block);
}

double Dot(const Values& x, const Values& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

class BlockTest : public ::testing::TestWithParam<std::string> {
 protected:
  BlockResult Run(BlockLane* lane, int64_t rows) const {
    return lane->Run(RandomFloats(rows * model_.input_size(), 2), model_.input_size(),
                     RandomFloats(rows * model_.output_size(), 3));
  }

  BlockLane NewLane(uint64_t max_rows = 20, BackwardMode mode = BackwardMode::kWhole) const {
    BlockLane lane(*block_, max_rows, Weights(model_), mode);
    lane.context = Context();
    return lane;
  }

  const TestModel model_ = TestModel(GetParam());
  const std::unique_ptr<Block> block_ = NewBlock(model_);
};

// Within `roundings` of 1e-5, of the largest element but at least of 1.
void ExpectClose(const std::vector<float>& actual, const Values& expected, double roundings = 1) {
  double largest = 1;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  ExpectNear(actual, expected, roundings * largest * 1e-5);
}

// Values and all gradients, against the plain loops and their numerical derivatives. 1e-5 is some
// 80 roundings.
TEST_P(BlockTest, ForwardAndGradientsAreTheReferences) {
  for (const int64_t rows : {1, 4, 7}) {
    BlockLane lane = NewLane();
    const BlockResult result = Run(&lane, rows);
    const Values x = ToDouble(RandomFloats(rows * model_.input_size(), 2));
    const Values dy = ToDouble(RandomFloats(rows * model_.output_size(), 3));
    const Values weights = ToDouble(Weights(model_));
    const auto forward = [&](const Values& at_x, const Values& at_weights) {
      return ReferenceForward(model_, lane.context, at_x, at_weights);
    };
    ExpectClose(result.y, forward(x, weights));
    ExpectClose(result.dx, NumericalGradient(
                               [&](const Values& at) { return Dot(forward(at, weights), dy); }, x));
    Values dw =
        NumericalGradient([&](const Values& at) { return Dot(forward(x, at), dy); }, weights);
    const Values statistics = testing::ReferenceStatistics(model_, lane.context, x, weights);
    for (size_t e = 0; e < dw.size(); ++e) dw[e] += statistics[e];
    ExpectClose(result.dw, dw, static_cast<double>(rows));
  }
}

TEST_P(BlockTest, SplitBackwardHasTheBitsOfTheWhole) {
  BlockLane whole = NewLane();
  BlockLane split = NewLane(20, BackwardMode::kSplit);
  for (BlockLane* lane : {&whole, &split}) lane->before = RandomFloats(model_.parameter_count(), 8);
  EXPECT_EQ(block_->splits(), model_.parameter_count() > 0);
  for (const bool accumulate : {false, true}) {
    whole.accumulate = split.accumulate = accumulate;
    EXPECT_EQ(Run(&split, 6), Run(&whole, 6));
  }
}

// Two micro-batches in flight share one scratch; the first one goes back last.
TEST_P(BlockTest, RecomputationChangesNoBit) {
  TestModel model(GetParam());
  model.spec.mutable_block(0)->set_recompute(true);
  const std::unique_ptr<Block> block = NewBlock(model);
  EXPECT_FALSE(block->splits());
  BlockLane plain = NewLane();
  const BlockResult expected = Run(&plain, 6);
  for (const BackwardMode mode : {BackwardMode::kWhole, BackwardMode::kSplit}) {
    BlockLane lane(*block, 20, Weights(model));
    lane.context = Context();
    EXPECT_EQ(Run(&lane, 6), expected);

    const auto other = block->NewState(lane.backend(), 20, mode, lane.scratch());
    ASSERT_TRUE(other.ok()) << other.status();
    const std::vector<float> weights = Weights(model);
    const std::vector<float> x = RandomFloats(6 * model.input_size(), 2);
    const std::vector<float> x_other = RandomFloats(9 * model.input_size(), 6);
    const std::vector<float> dy = RandomFloats(6 * model.output_size(), 3);
    std::vector<float> dw(weights.size());
    const auto y = block->Forward(lane.backend(), Context(), {x.data(), 6, model.input_size()},
                                  {weights.data(), nullptr}, lane.state());
    ASSERT_TRUE(y.ok()) << y.status();
    for (const bool training : {true, false}) {
      PassContext context = Context(90);
      context.training = training;
      ASSERT_TRUE(block
                      ->Forward(lane.backend(), context, {x_other.data(), 9, model.input_size()},
                                {weights.data(), nullptr}, other->get())
                      .ok());
      EXPECT_EQ(std::vector<float>(y->data, y->data + y->size()), expected.y);
    }
    const auto dx =
        block->Backward(lane.backend(), Context(), {dy.data(), 6, model.output_size()},
                        {weights.data(), nullptr}, true, {dw.data(), nullptr, false}, lane.state());
    ASSERT_TRUE(dx.ok()) << dx.status();
    EXPECT_EQ(std::vector<float>(dx->data, dx->data + dx->size()), expected.dx);
    EXPECT_EQ(dw, expected.dw);
  }
}

// Evaluation leaves its output in the state, where another micro-batch cannot reach it.
TEST_P(BlockTest, EvaluationsInFlightDoNotDisturbOneAnother) {
  for (const bool recompute : {false, true}) {
    TestModel model(GetParam());
    model.spec.mutable_block(0)->set_recompute(recompute);
    const std::unique_ptr<Block> block = NewBlock(model);
    BlockLane lane(*block, 20, Weights(model));
    const auto other = block->NewState(lane.backend(), 20, BackwardMode::kWhole, lane.scratch());
    ASSERT_TRUE(other.ok()) << other.status();
    PassContext context = Context();
    context.training = false;
    const std::vector<float> weights = Weights(model);
    const std::vector<float> x = RandomFloats(6 * model.input_size(), 2);
    const std::vector<float> x_other = RandomFloats(9 * model.input_size(), 6);
    const auto y = block->Forward(lane.backend(), context, {x.data(), 6, model.input_size()},
                                  {weights.data(), nullptr}, lane.state());
    ASSERT_TRUE(y.ok()) << y.status();
    const std::vector<float> values(y->data, y->data + y->size());
    ExpectClose(values, ReferenceForward(model, context, ToDouble(x), ToDouble(weights)));
    for (const bool training : {false, true}) {
      PassContext next = Context();
      next.training = training;
      ASSERT_TRUE(block
                      ->Forward(lane.backend(), next, {x_other.data(), 9, model.input_size()},
                                {weights.data(), nullptr}, other->get())
                      .ok());
      EXPECT_EQ(std::vector<float>(y->data, y->data + y->size()), values);
    }
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
  const auto y = block->Forward(lane.backend(), context, {x.data(), 4, 30}, {}, lane.state());
  ASSERT_TRUE(y.ok()) << y.status();
  std::vector<float> values(x.size());
  ASSERT_TRUE(lane.backend()->Download(*y, values.data()).ok());
  EXPECT_EQ(values, x);
}

class BlockMemoryTest : public ::testing::TestWithParam<std::string> {};

TEST_P(BlockMemoryTest, PassesAllocateNothing) {
  const TestModel model(GetParam());
  const std::unique_ptr<Block> block = NewBlock(model);
  const std::vector<float> weights = Weights(model);
  BlockLane lane(*block, 32, weights);
  const PassContext context = Context();
  const std::vector<float> x = RandomFloats(32 * model.input_size(), 2);
  const std::vector<float> dy = RandomFloats(32 * model.output_size(), 3);
  std::vector<float> gradient(weights.size());
  const auto pass = [&](int64_t rows) {
    const auto y = block->Forward(lane.backend(), context, {x.data(), rows, model.input_size()},
                                  {weights.data(), nullptr}, lane.state());
    const auto dx = block->Backward(lane.backend(), context, {dy.data(), rows, model.output_size()},
                                    {weights.data(), nullptr}, true,
                                    {gradient.data(), nullptr, true}, lane.state());
    ASSERT_TRUE(y.ok() && dx.ok()) << y.status() << dx.status();
  };
  pass(32);
  pass(7);
  const int64_t before = allocations;
  for (const int64_t rows : {32, 7, 0, 1, 32}) pass(rows);
  EXPECT_EQ(allocations - before, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Blocks, BlockMemoryTest,
    ::testing::Values(
        "input_shape: 512 block { layer { linear { out_features: 512 } } layer { relu {} } "
        "layer { dropout { rate: 0.5 } } layer { linear { out_features: 512 } } layer { gelu {} } "
        "layer { linear { out_features: 10 } } layer { tanh {} } }",
        "input_shape: [16, 32] block { layer { position_embedding {} } "
        "layer { transformer { heads: 4 rotary: true dropout: 0.1 } } recompute: true }"));

class BlockErrorsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ConstMatrix> Forward(int64_t rows, int64_t cols, const float* weights,
                                      BlockState* state, bool training = true) {
    PassContext context = Context();
    context.training = training;
    return block_->Forward(lane_.backend(), context, {x_.data(), rows, cols}, {weights, nullptr},
                           state);
  }
  absl::StatusOr<ConstMatrix> Backward(int64_t rows, int64_t cols, float* gradient) {
    return block_->Backward(lane_.backend(), Context(), {x_.data(), rows, cols},
                            {weights_.data(), nullptr}, true, {gradient, nullptr, false},
                            lane_.state());
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
  ExpectRefused(Backward(4, 5, nullptr), "no place for the gradient");
  ASSERT_TRUE(Forward(4, 7, weights_.data(), lane_.state(), /*training=*/false).ok());
  EXPECT_EQ(Backward(4, 5, gradient.data()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BlockErrorsTest, PartsOfBackwardInTheirOrderAndMode) {
  std::vector<float> gradient(weights_.size());
  const BlockWeights weights = {weights_.data(), nullptr};
  const auto input = [&](BlockState* state) {
    return block_->BackwardInput(lane_.backend(), Context(), {x_.data(), 4, 5}, weights, true,
                                 state);
  };
  ASSERT_TRUE(Forward(4, 7, weights_.data(), lane_.state()).ok());
  ExpectRefused(input(lane_.state()), "not for a backward pass in two parts");
  BlockLane split(*block_, 4, weights_, BackwardMode::kSplit);
  const auto for_weights = [&] {
    return block_
        ->BackwardWeights(split.backend(), Context(), weights, {gradient.data(), nullptr, false},
                          split.state())
        .code();
  };
  ASSERT_TRUE(Forward(4, 7, weights_.data(), split.state()).ok());
  EXPECT_EQ(for_weights(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(input(split.state()).ok());
  EXPECT_EQ(for_weights(), absl::StatusCode::kOk);
  ASSERT_TRUE(Forward(4, 7, weights_.data(), split.state()).ok());
  EXPECT_EQ(for_weights(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BlockErrorsTest, ScratchOfAnotherBlockModeOrSize) {
  const auto message = [&](BlockScratch* scratch, BackwardMode mode) {
    const absl::Status status = block_->NewState(lane_.backend(), 5, mode, scratch).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message(nullptr, BackwardMode::kWhole), HasSubstr("scratch is of another block"));
  EXPECT_THAT(message(lane_.scratch(), BackwardMode::kWhole),
              HasSubstr("found a scratch for 4 rows, expected at least 5"));
  const BlockLane split(*block_, 5, weights_, BackwardMode::kSplit);
  const std::unique_ptr<Block> other = NewBlock(model_);
  BlockLane other_lane(*other, 5, weights_);
  EXPECT_THAT(message(other_lane.scratch(), BackwardMode::kWhole), HasSubstr("of another block"));
}

TEST_F(BlockErrorsTest, StateThatFitsNoMemory) {
  for (const uint64_t rows : {uint64_t{1} << 60, std::numeric_limits<uint64_t>::max()}) {
    for (const BackwardMode mode : {BackwardMode::kWhole, BackwardMode::kSplit}) {
      const absl::Status scratch = block_->NewScratch(lane_.backend(), rows, mode).status();
      EXPECT_EQ(scratch.ok(), mode == BackwardMode::kSplit) << scratch;
    }
    const absl::Status status =
        block_->NewState(lane_.backend(), rows, BackwardMode::kSplit, nullptr).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  }
}

// A block that embeds tokens, and one that ends with the same table.
constexpr char kTiedModel[] =
    "input_shape: 4 block { layer { embedding { vocabulary: 6 width: 3 } } "
    "layer { position_embedding {} } layer { dropout { rate: 0.3 } } } "
    "block { name: 'head' layer { rms_norm {} } layer { tied_head { block: 'block0' } } }";

std::vector<float> Tokens(int64_t count) {
  std::vector<float> tokens = RandomFloats(count, 4, 0, 6);
  for (float& token : tokens) token = std::floor(token);
  return tokens;
}

class BlockTableTest : public ::testing::TestWithParam<BackwardMode> {};

TEST_P(BlockTableTest, EmbeddingIsTheReference) {
  const TestModel model(kTiedModel);
  const std::unique_ptr<Block> block = NewBlock(model);
  const Values weights = ToDouble(Weights(model));
  for (const int64_t rows : {0, 1, 5}) {
    BlockLane lane(*block, 5, Weights(model), GetParam());
    lane.context = Context();
    lane.want_input_gradient = false;
    // Rows of tokens that do not occur are overwritten too.
    lane.before = RandomFloats(model.parameter_count(), 8);
    const std::vector<float> tokens = Tokens(rows * 4);
    const std::vector<float> dy = RandomFloats(rows * 12, 3);
    const BlockResult result = lane.Run(tokens, 4, dy);
    const auto forward = [&](const Values& at) {
      return ReferenceForward(model, lane.context, ToDouble(tokens), at);
    };
    ExpectClose(result.y, forward(weights));
    ExpectClose(result.dw,
                NumericalGradient([&](const Values& at) { return Dot(forward(at), ToDouble(dy)); },
                                  weights));
    lane.accumulate = true;
    const BlockResult added = lane.Run(tokens, 4, dy);
    for (size_t i = 0; i < added.dw.size(); ++i) {
      EXPECT_NEAR(added.dw[i], double{lane.before[i]} + result.dw[i], 1e-5) << i;
    }
  }
}

TEST_P(BlockTableTest, TokensHaveNoGradient) {
  const TestModel model(kTiedModel);
  const std::unique_ptr<Block> block = NewBlock(model);
  BlockLane lane(*block, 2, Weights(model));
  const std::vector<float> weights = Weights(model);
  const std::vector<float> tokens = Tokens(4);
  const std::vector<float> dy = RandomFloats(12, 3);
  std::vector<float> dw(weights.size());
  ASSERT_TRUE(block
                  ->Forward(lane.backend(), Context(), {tokens.data(), 1, 4},
                            {weights.data(), nullptr}, lane.state())
                  .ok());
  const auto dx =
      block->Backward(lane.backend(), Context(), {dy.data(), 1, 12}, {weights.data(), nullptr},
                      true, {dw.data(), nullptr, false}, lane.state());
  EXPECT_EQ(dx.status().code(), absl::StatusCode::kInvalidArgument) << dx.status();
}

TEST_P(BlockTableTest, TiedHeadIsTheReference) {
  const TestModel model(kTiedModel, 1);
  const std::unique_ptr<Block> block = NewBlock(model);
  EXPECT_TRUE(block->splits());
  const std::vector<float> table = RandomFloats(model.tied_count(), 5);
  ASSERT_EQ(model.tied_count(), 6 * 3 + 4 * 3);
  const Values weights = ToDouble(Weights(model));
  const Values tied = ToDouble(table);
  for (const int64_t rows : {0, 1, 5}) {
    BlockLane lane(*block, 5, Weights(model), GetParam(), table);
    // What is no part of the table is overwritten too.
    lane.tied_before = RandomFloats(model.tied_count(), 8);
    const std::vector<float> x = RandomFloats(rows * 12, 2);
    const std::vector<float> dy = RandomFloats(rows * 24, 3);
    const BlockResult result = lane.Run(x, 12, dy);
    const auto dot = [&](const Values& at_x, const Values& at_weights, const Values& at_tied) {
      return Dot(ReferenceForward(model, lane.context, at_x, at_weights, at_tied), ToDouble(dy));
    };
    ExpectClose(result.y, ReferenceForward(model, lane.context, ToDouble(x), weights, tied));
    ExpectClose(
        result.dx,
        NumericalGradient([&](const Values& at) { return dot(at, weights, tied); }, ToDouble(x)));
    ExpectClose(
        result.dw,
        NumericalGradient([&](const Values& at) { return dot(ToDouble(x), at, tied); }, weights));
    ExpectClose(
        result.dtied,
        NumericalGradient([&](const Values& at) { return dot(ToDouble(x), weights, at); }, tied));
    lane.accumulate = true;
    const BlockResult added = lane.Run(x, 12, dy);
    for (size_t i = 0; i < added.dtied.size(); ++i) {
      EXPECT_NEAR(added.dtied[i], double{lane.tied_before[i]} + result.dtied[i], 1e-5) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, BlockTableTest,
                         ::testing::Values(BackwardMode::kWhole, BackwardMode::kSplit));

TEST(BlockNumberTest, DropoutIsNumberedThroughTheWholeModel) {
  // 0 the linear layer, 1 and 3 residuals, 4 the dropout within both.
  const TestModel model(
      "input_shape: 30 block { layer { linear { out_features: 30 } } } block { layer { residual { "
      "layer { tanh {} } layer { residual { layer { dropout { rate: 0.5 } } } } } } }",
      1);
  const std::unique_ptr<Block> block = NewBlock(model);
  BlockLane lane(*block, 2, {});
  lane.context = Context();
  const std::vector<float> x = RandomFloats(2 * 30, 2, 0.5f, 1);
  const BlockResult result = lane.Run(x, 30, x);
  const Values factors = testing::DropoutFactors({11, 12, 4, 40}, 0.5, 2, 30);
  for (size_t i = 0; i < x.size(); ++i) {
    const double f = std::tanh(double{x[i]});
    EXPECT_NEAR(result.y[i], x[i] + f + f * factors[i], 1e-6) << i;
  }
}

// The layers that a transformer layer stands for are the same block.
TEST(BlockExpansionTest, ExpandedModelHasTheSameBits) {
  TestModel model(
      "input_shape: [3, 4] block { layer { transformer { heads: 2 dropout: 0.5 } } "
      "layer { dropout { rate: 0.5 } } }");
  const auto run = [&model] {
    const std::unique_ptr<Block> block = NewBlock(model);
    BlockLane lane(*block, 3, Weights(model));
    lane.context = Context();
    return lane.Run(RandomFloats(36, 2), 12, RandomFloats(36, 3));
  };
  const BlockResult expected = run();
  model.spec = ExpandModel(model.spec);
  EXPECT_EQ(run(), expected);
}

TEST_F(BlockErrorsTest, LayersThatDoNotFitTheLayout) {
  const auto message = [&](const v1::ModelSpec& spec, const v1::ModelLayout& layout,
                           uint32_t index = 0) {
    const absl::Status status = Block::Create(spec, layout, index).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  v1::ModelLayout layout = model_.layout;
  layout.mutable_block(0)->set_segment(-1);
  EXPECT_THAT(message(model_.spec, layout), HasSubstr("no parameter block0.0.weight"));
  layout.mutable_block(0)->set_segment(7);
  EXPECT_THAT(message(model_.spec, layout), HasSubstr("no such segment"));
  layout = model_.layout;
  layout.mutable_segment(0)->mutable_parameter(0)->set_shape(0, 6);
  EXPECT_THAT(message(model_.spec, layout), HasSubstr("has shape [6,7], expected [5,7]"));
  layout = model_.layout;
  layout.mutable_segment(0)->mutable_parameter(1)->set_offset(36);
  EXPECT_THAT(message(model_.spec, layout), HasSubstr("ends beyond its segment of 40"));
  layout = model_.layout;
  layout.mutable_segment(0)->add_parameter()->set_name("block0.7.weight");
  EXPECT_THAT(message(model_.spec, layout), HasSubstr("has 3 parameters, the layers use 2"));
  layout = model_.layout;
  layout.mutable_block(0)->set_output_shape(0, 6);
  EXPECT_THAT(message(model_.spec, layout), HasSubstr("the layers give [5]"));

  EXPECT_THAT(message(model_.spec, model_.layout, 2), HasSubstr("block 2"));
  v1::ModelSpec empty_layer = model_.spec;
  empty_layer.mutable_block(0)->mutable_layer(0)->clear_kind();
  EXPECT_THAT(message(empty_layer, model_.layout), HasSubstr("empty layer"));

  const TestModel tied(kTiedModel, 1);
  layout = tied.layout;
  layout.mutable_block(1)->clear_tied_segment();
  EXPECT_THAT(message(tied.spec, layout, 1), HasSubstr("no tied segment"));
  layout = tied.layout;
  layout.mutable_segment(0)->mutable_parameter(0)->set_shape(0, 5);
  EXPECT_THAT(message(tied.spec, layout, 1), HasSubstr("has shape [5,3], expected [6,3]"));
}

}  // namespace
}  // namespace sangam
