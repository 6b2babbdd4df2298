#include "worker/layers/segment_progress.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/layers/block_harness.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/views.h"
#include "worker/layers/block.h"
#include "worker/layers/pass_context.h"

// Passes of blocks whose weights come while forward is under way, and are replaced while backward
// is, against passes beside which nothing happens.
namespace sangam {
namespace {

using testing::RandomFloats;
using testing::TestModel;

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kRows = 9;

struct Case {
  std::string name;
  std::string model;
  // Calls of each kind that there are at least, where products are ordered.
  size_t least_asked = 1;
  size_t least_told = 1;
};

std::vector<Case> Cases() {
  return {
      {"Wide",
       "input_shape: 700 block { layer { linear { out_features: 300 } } layer { relu {} } }", 5, 3},
      {"NoBias",
       "input_shape: 700 block { layer { linear { out_features: 300 no_bias: true } } "
       "layer { dropout { rate: 0.2 } } }",
       5, 3},
      {"Chain",
       "input_shape: 300 block { layer { linear { out_features: 400 } } layer { gelu {} } "
       "layer { linear { out_features: 200 } } layer { tanh {} } }",
       4, 3},
      {"Sequence",
       "input_shape: [4, 96] block { layer { layer_norm {} } layer { linear { out_features: 400 } "
       "} "
       "layer { gelu {} } layer { linear { out_features: 96 } } }",
       1, 2},
      {"Residual",
       "input_shape: 128 block { layer { residual { layer { rms_norm {} } "
       "layer { linear { out_features: 512 } } layer { relu {} } "
       "layer { linear { out_features: 128 } } } } }",
       1, 2},
      {"Recompute",
       "input_shape: 300 block { recompute: true layer { linear { out_features: 400 } } "
       "layer { relu {} } layer { linear { out_features: 200 } } }",
       4, 3},
      {"Convolution",
       "input_shape: [8, 8, 2] block { layer { conv2d { out_channels: 3 kernel_height: 3 } } "
       "layer { relu {} } layer { flatten {} } layer { linear { out_features: 5 } } }",
       1, 1},
  };
}

class SegmentProgressTest : public ::testing::TestWithParam<Case> {
 protected:
  SegmentProgressTest() {
    block_ = model_.NewBlock().value();
    backend_ = CreateBackend("cpu").value();
    scratch_ = block_->NewScratch(backend_.get(), kRows, BackwardMode::kWhole).value();
    state_ = block_->NewState(backend_.get(), kRows, BackwardMode::kWhole, scratch_.get()).value();
    context_.training = true;
    context_.seed = 3;
  }

  std::vector<float> Forward(const std::vector<float>& weights, const WeightsArrival* arrival) {
    BlockWeights given;
    given.own = weights.data();
    given.arrival = arrival;
    const auto output =
        block_->Forward(backend_.get(), context_,
                        ConstMatrix(x_.data(), kRows, model_.input_size()), given, state_.get());
    EXPECT_TRUE(output.ok()) << output.status();
    if (!output.ok()) return {};
    return {output->data, output->data + output->size()};
  }

  std::vector<float> Backward(const std::vector<float>& weights, const GradientProgress* progress,
                              std::vector<float>* gradient) {
    BlockWeights given;
    given.own = weights.data();
    BlockGradients to;
    to.own = gradient->data();
    to.accumulate = true;
    to.progress = progress;
    const auto input_gradient = block_->Backward(
        backend_.get(), context_, ConstMatrix(dy_.data(), kRows, model_.output_size()), given, true,
        to, state_.get());
    EXPECT_TRUE(input_gradient.ok()) << input_gradient.status();
    if (!input_gradient.ok()) return {};
    return {input_gradient->data, input_gradient->data + input_gradient->size()};
  }

  const TestModel model_{GetParam().model};
  const std::vector<float> weights_ = RandomFloats(model_.parameter_count(), 1);
  const std::vector<float> x_ = RandomFloats(kRows * model_.input_size(), 2);
  const std::vector<float> dy_ = RandomFloats(kRows * model_.output_size(), 4);
  std::unique_ptr<Block> block_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<BlockScratch> scratch_;
  std::unique_ptr<BlockState> state_;
  PassContext context_;
};

TEST_P(SegmentProgressTest, ForwardReadsNoWeightThatItHasNotAskedFor) {
  const std::vector<float> expected = Forward(weights_, nullptr);
  std::vector<float> coming(weights_.size(), kNothing);
  size_t asked = 0;
  const WeightsArrival arrival = [&](uint64_t first, uint64_t count) {
    ++asked;
    first = std::min<uint64_t>(first, coming.size());
    count = std::min<uint64_t>(count, coming.size() - first);
    std::copy_n(weights_.data() + first, count, coming.data() + first);
    return absl::OkStatus();
  };
  EXPECT_EQ(Forward(coming, &arrival), expected);
  EXPECT_GE(asked, backend_->rows_stand_alone() ? GetParam().least_asked : 1);
}

TEST_P(SegmentProgressTest, WhatIsToldIsFinalAndItsWeightsAreReadNoMore) {
  Forward(weights_, nullptr);
  const std::vector<float> before = RandomFloats(model_.parameter_count(), 5);
  std::vector<float> expected = before;
  const std::vector<float> input_gradient = Backward(weights_, nullptr, &expected);

  std::vector<float> weights = weights_;
  Forward(weights, nullptr);
  std::vector<float> gradient = before;
  std::vector<int> told(weights.size());
  size_t calls = 0;
  const GradientProgress progress = [&](uint64_t first, uint64_t count) -> absl::Status {
    ++calls;
    if (first + count > told.size()) return absl::OutOfRangeError("beyond the segment");
    for (uint64_t e = first; e < first + count; ++e) {
      ++told[e];
      EXPECT_EQ(gradient[e], expected[e]) << e;
      weights[e] = kNothing;
    }
    return absl::OkStatus();
  };
  EXPECT_EQ(Backward(weights, &progress, &gradient), input_gradient);
  EXPECT_EQ(gradient, expected);
  for (size_t e = 0; e < told.size(); ++e) ASSERT_LE(told[e], 1) << e;
  EXPECT_GE(calls, backend_->rows_stand_alone() ? GetParam().least_told : 0);
}

TEST_P(SegmentProgressTest, AnErrorEndsThePass) {
  const WeightsArrival lost = [](uint64_t, uint64_t) { return absl::DataLossError("lost"); };
  BlockWeights given;
  given.own = weights_.data();
  given.arrival = &lost;
  EXPECT_EQ(block_
                ->Forward(backend_.get(), context_,
                          ConstMatrix(x_.data(), kRows, model_.input_size()), given, state_.get())
                .status()
                .code(),
            absl::StatusCode::kDataLoss);

  if (!backend_->rows_stand_alone()) return;
  Forward(weights_, nullptr);
  const GradientProgress refused = [](uint64_t, uint64_t) { return absl::AbortedError("no"); };
  std::vector<float> gradient(weights_.size());
  given.arrival = nullptr;
  BlockGradients to;
  to.own = gradient.data();
  to.progress = &refused;
  EXPECT_EQ(
      block_
          ->Backward(backend_.get(), context_, ConstMatrix(dy_.data(), kRows, model_.output_size()),
                     given, true, to, state_.get())
          .status()
          .code(),
      absl::StatusCode::kAborted);
}

INSTANTIATE_TEST_SUITE_P(Blocks, SegmentProgressTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sangam
