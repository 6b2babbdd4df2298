#include "tests/worker/layers/block_harness.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/model/model_layout.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/model.pb.h"
#include "tests/testing/device_matrix.h"
#include "tests/testing/reference_ops.h"
#include "worker/backend/backends.h"
#include "worker/layers/block.h"

namespace sangam::testing {
namespace {

template <typename Shape>
int64_t Elements(const Shape& shape) {
  int64_t elements = 1;
  for (const uint64_t dimension : shape) elements *= static_cast<int64_t>(dimension);
  return elements;
}

// The parameter of layer `index` that ends with `role`, empty when there is none.
Values Parameter(const TestModel& model, int index, const std::string& role,
                 const Values& weights) {
  const std::string name = model.layout.block(0).name() + "." + std::to_string(index) + "." + role;
  if (model.segment() == nullptr) return {};
  for (const v1::ParameterLayout& parameter : model.segment()->parameter()) {
    if (parameter.name() != name) continue;
    const auto first = weights.begin() + static_cast<ptrdiff_t>(parameter.offset());
    return Values(first, first + static_cast<ptrdiff_t>(parameter.element_count()));
  }
  return {};
}

std::vector<float> Read(Backend* backend, ConstMatrix matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.size()));
  EXPECT_TRUE(backend->Download(matrix, values.data()).ok());
  EXPECT_TRUE(backend->Synchronize().ok());
  return values;
}

}  // namespace

TestModel::TestModel(const std::string& text) {
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
  const int index = layout.block(0).segment();
  return index < 0 ? nullptr : &layout.segment(index);
}
int64_t TestModel::input_size() const { return Elements(layout.block(0).input_shape()); }
int64_t TestModel::output_size() const { return Elements(layout.block(0).output_shape()); }
int64_t TestModel::parameter_count() const {
  return segment() == nullptr ? 0 : static_cast<int64_t>(segment()->element_count());
}

absl::StatusOr<std::unique_ptr<Block>> TestModel::NewBlock(uint32_t first_layer) const {
  return Block::Create(spec.block(0), layout.block(0), segment(), first_layer);
}

Values ReferenceForward(const TestModel& model, uint32_t first_layer, const PassContext& context,
                        const Values& x, const Values& weights) {
  const auto rows = x.size() / static_cast<size_t>(model.input_size());
  Values value = x;
  for (int i = 0; i < model.spec.block(0).layer_size(); ++i) {
    const v1::LayerSpec& layer = model.spec.block(0).layer(i);
    const size_t cols = rows == 0 ? 0 : value.size() / rows;
    if (layer.has_linear()) {
      const Values w = Parameter(model, i, "weight", weights);
      const LinearShape shape = {rows, cols, layer.linear().out_features()};
      value = LinearForward(shape, value, w, Parameter(model, i, "bias", weights));
    } else if (layer.has_relu()) {
      value = Relu(value);
    } else if (layer.has_gelu()) {
      value = Gelu(value);
    } else if (layer.has_tanh()) {
      value = Tanh(value);
    } else if (layer.has_dropout() && context.training) {
      const DropoutPlace place = {context.seed, context.step,
                                  first_layer + static_cast<uint32_t>(i), context.first_position};
      value = Times(value, DropoutFactors(place, double{layer.dropout().rate()}, rows, cols));
    }
  }
  return value;
}

BlockLane::BlockLane(const Block& block, uint64_t max_rows, const std::vector<float>& weights)
    : before(weights.size(), 0.0f), block_(block), weights_(weights) {
  auto backend = CreateBackend("cpu");
  SANGAM_CHECK(backend.ok());
  backend_ = *std::move(backend);
  auto state = block.NewState(backend_.get(), max_rows);
  SANGAM_CHECK(state.ok());
  state_ = *std::move(state);
}

BlockResult BlockLane::Run(const std::vector<float>& x, int64_t input_size,
                           const std::vector<float>& dy) {
  const int64_t rows = static_cast<int64_t>(x.size()) / input_size;
  const int64_t parameters = static_cast<int64_t>(weights_.size());
  const DeviceMatrix weights(backend_.get(), 1, parameters, weights_);
  const DeviceMatrix gradient(backend_.get(), 1, parameters, before);
  const DeviceMatrix input(backend_.get(), rows, input_size, x);
  BlockResult result;

  const auto y =
      block_.Forward(backend_.get(), context, input.view(), weights.view().data, state_.get());
  EXPECT_TRUE(y.ok()) << y.status();
  if (!y.ok()) return result;
  EXPECT_EQ(y->rows, rows);
  result.y = Read(backend_.get(), *y);

  const DeviceMatrix output_gradient(backend_.get(), rows, y->cols, dy);
  const auto dx =
      block_.Backward(backend_.get(), context, output_gradient.view(), weights.view().data,
                      accumulate, want_input_gradient, gradient.view().data, state_.get());
  EXPECT_TRUE(dx.ok()) << dx.status();
  if (!dx.ok()) return result;
  EXPECT_EQ(dx->rows, want_input_gradient ? rows : 0);
  result.dx = Read(backend_.get(), *dx);
  result.dw = gradient.Read();
  return result;
}

}  // namespace sangam::testing
