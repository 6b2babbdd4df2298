#include "tests/worker/layers/block_harness.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/model/model_layout.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/views.h"
#include "worker/layers/block.h"

namespace sangam::testing {
namespace {

template <typename Shape>
int64_t Elements(const Shape& shape) {
  int64_t elements = 1;
  for (const uint64_t dimension : shape) elements *= static_cast<int64_t>(dimension);
  return elements;
}

std::vector<float> Read(Backend* backend, ConstMatrix matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.size()));
  EXPECT_TRUE(backend->Download(matrix, values.data()).ok());
  EXPECT_TRUE(backend->Synchronize().ok());
  return values;
}

}  // namespace

TestModel::TestModel(const std::string& text, uint32_t block_under_test) : block(block_under_test) {
  SANGAM_CHECK(google::protobuf::TextFormat::ParseFromString(text, &spec));
  // A model must have something to train, the block under test need not.
  v1::BlockSpec* tail = spec.add_block();
  tail->add_layer()->mutable_flatten();
  tail->add_layer()->mutable_linear()->set_out_features(1);
  auto built = BuildModelLayout(spec);
  EXPECT_TRUE(built.ok()) << built.status();
  SANGAM_CHECK(built.ok());
  layout = *std::move(built);
}

const v1::SegmentLayout* TestModel::segment() const {
  const int index = layout.block(static_cast<int>(block)).segment();
  return index < 0 ? nullptr : &layout.segment(index);
}
const v1::SegmentLayout* TestModel::tied_segment() const {
  const v1::BlockLayout& of = layout.block(static_cast<int>(block));
  return of.has_tied_segment() ? &layout.segment(static_cast<int>(of.tied_segment())) : nullptr;
}
int64_t TestModel::input_size() const {
  return Elements(layout.block(static_cast<int>(block)).input_shape());
}
int64_t TestModel::output_size() const {
  return Elements(layout.block(static_cast<int>(block)).output_shape());
}
int64_t TestModel::parameter_count() const {
  return segment() == nullptr ? 0 : static_cast<int64_t>(segment()->element_count());
}
int64_t TestModel::tied_count() const {
  return tied_segment() == nullptr ? 0 : static_cast<int64_t>(tied_segment()->element_count());
}

absl::StatusOr<std::unique_ptr<Block>> TestModel::NewBlock() const {
  return Block::Create(spec, layout, block);
}

BlockLane::BlockLane(const Block& block, uint64_t max_rows, const std::vector<float>& weights,
                     BackwardMode mode, const std::vector<float>& tied)
    : before(weights.size(), 0.0f),
      tied_before(tied.size(), 0.0f),
      block_(block),
      mode_(mode),
      weights_(weights),
      tied_(tied) {
  auto backend = CreateBackend("cpu");
  SANGAM_CHECK(backend.ok());
  backend_ = *std::move(backend);
  auto scratch = block.NewScratch(backend_.get(), max_rows, mode);
  SANGAM_CHECK(scratch.ok());
  scratch_ = *std::move(scratch);
  auto state = block.NewState(backend_.get(), max_rows, mode, scratch_.get());
  SANGAM_CHECK(state.ok());
  state_ = *std::move(state);
}

absl::StatusOr<ConstMatrix> BlockLane::Backward(ConstMatrix output_gradient,
                                                const BlockWeights& weights,
                                                const BlockGradients& gradients) {
  if (mode_ == BackwardMode::kWhole) {
    return block_.Backward(backend_.get(), context, output_gradient, weights, want_input_gradient,
                           gradients, state_.get());
  }
  const auto dx = block_.BackwardInput(backend_.get(), context, output_gradient, weights,
                                       want_input_gradient, state_.get());
  if (!dx.ok()) return dx;
  const absl::Status status =
      block_.BackwardWeights(backend_.get(), context, weights, gradients, state_.get());
  if (!status.ok()) return status;
  return dx;
}

BlockResult BlockLane::Run(const std::vector<float>& x, int64_t input_size,
                           const std::vector<float>& dy) {
  const int64_t rows = static_cast<int64_t>(x.size()) / input_size;
  const auto parameters = static_cast<int64_t>(weights_.size());
  const auto tied_parameters = static_cast<int64_t>(tied_.size());
  const DeviceMatrix weights(backend_.get(), 1, parameters, weights_);
  const DeviceMatrix tied(backend_.get(), 1, tied_parameters, tied_);
  const DeviceMatrix gradient(backend_.get(), 1, parameters, before);
  const DeviceMatrix tied_gradient(backend_.get(), 1, tied_parameters, tied_before);
  const DeviceMatrix input(backend_.get(), rows, input_size, x);
  const BlockWeights block_weights = {weights.view().data, tied.view().data};
  BlockResult result;

  const auto y = block_.Forward(backend_.get(), context, input.view(), block_weights, state_.get());
  EXPECT_TRUE(y.ok()) << y.status();
  if (!y.ok()) return result;
  EXPECT_EQ(y->rows, rows);
  result.y = Read(backend_.get(), *y);

  const DeviceMatrix output_gradient(backend_.get(), rows, y->cols, dy);
  const auto dx = Backward(output_gradient.view(), block_weights,
                           {gradient.view().data, tied_gradient.view().data, accumulate});
  EXPECT_TRUE(dx.ok()) << dx.status();
  if (!dx.ok()) return result;
  EXPECT_EQ(dx->rows, want_input_gradient ? rows : 0);
  result.dx = Read(backend_.get(), *dx);
  result.dw = gradient.Read();
  result.dtied = tied_gradient.Read();
  return result;
}

}  // namespace sangam::testing
