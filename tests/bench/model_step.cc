#include "tests/bench/model_step.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "common/base/check.h"
#include "common/model/model_layout.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

using testing::DeviceMatrix;
using testing::RandomFloats;

template <typename Shape>
int64_t Elements(const Shape& shape) {
  int64_t elements = 1;
  for (const auto dimension : shape) elements *= static_cast<int64_t>(dimension);
  return elements;
}

}  // namespace

void CheckOk(const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  SANGAM_CHECK(status.ok());
}

ModelStep::ModelStep(Backend* backend, const v1::ModelSpec& model, const v1::LossSpec& loss,
                     int64_t rows, int64_t largest_input)
    : backend_(backend), layout_(ValueOf(BuildModelLayout(model))) {
  const int64_t columns = Elements(model.input_shape());
  std::vector<float> input = RandomFloats(rows * columns, 5, 0, static_cast<float>(largest_input));
  if (model.block(0).layer(0).has_embedding()) {
    for (float& value : input) value = std::floor(value);
  }
  input_ = std::make_unique<DeviceMatrix>(backend, rows, columns, input);
  for (const v1::SegmentLayout& segment : layout_.segment()) {
    const auto size = static_cast<int64_t>(segment.element_count());
    weights_.push_back(
        std::make_unique<DeviceMatrix>(backend, 1, size, RandomFloats(size, 7, -0.05f, 0.05f)));
    parameters_ += size;
  }
  const auto zeros = [backend](uint64_t elements) {
    return std::make_unique<DeviceMatrix>(backend, 1, static_cast<int64_t>(elements),
                                          std::vector<float>(elements, 0.0f));
  };
  for (int i = 0; i < layout_.block_size(); ++i) {
    const v1::BlockLayout& block = layout_.block(i);
    const auto max_rows = static_cast<uint64_t>(rows);
    blocks_.push_back(ValueOf(Block::Create(model, layout_, static_cast<uint32_t>(i))));
    scratches_.push_back(
        ValueOf(blocks_.back()->NewScratch(backend, max_rows, BackwardMode::kWhole)));
    states_.push_back(ValueOf(blocks_.back()->NewState(backend, max_rows, BackwardMode::kWhole,
                                                       scratches_.back().get())));
    gradients_.push_back(
        block.segment() < 0 ? nullptr : zeros(layout_.segment(block.segment()).element_count()));
    tied_gradients_.push_back(
        block.has_tied_segment()
            ? zeros(layout_.segment(static_cast<int>(block.tied_segment())).element_count())
            : nullptr);
  }
  loss_ = ValueOf(Loss::Create(loss, layout_.terms_per_sample()));
  labels_.assign(static_cast<size_t>(rows) * layout_.terms_per_sample(), 3);
  output_gradient_ = std::make_unique<DeviceMatrix>(
      backend, rows, Elements(layout_.block(layout_.block_size() - 1).output_shape()));
}

BlockWeights ModelStep::WeightsOf(int block) const {
  const v1::BlockLayout& layout = layout_.block(block);
  BlockWeights weights;
  if (layout.segment() >= 0) {
    weights.own = weights_[static_cast<size_t>(layout.segment())]->view().data;
  }
  if (layout.has_tied_segment()) weights.tied = weights_[layout.tied_segment()]->view().data;
  return weights;
}

BlockGradients ModelStep::GradientsOf(int block) const {
  const auto at = static_cast<size_t>(block);
  BlockGradients gradients;
  if (gradients_[at] != nullptr) gradients.own = gradients_[at]->view().data;
  if (tied_gradients_[at] != nullptr) gradients.tied = tied_gradients_[at]->view().data;
  gradients.accumulate = true;
  return gradients;
}

void ModelStep::Run() {
  const int blocks = layout_.block_size();
  ConstMatrix value = input_->view();
  for (int i = 0; i < blocks; ++i) {
    const auto at = static_cast<size_t>(i);
    value =
        ValueOf(blocks_[at]->Forward(backend_, context_, value, WeightsOf(i), states_[at].get()));
  }
  Matrix gradient = output_gradient_->view();
  CheckOk(loss_->Compute(backend_, value, labels_.data(), &gradient).status());
  ConstMatrix back = gradient;
  for (int i = blocks - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    back = ValueOf(blocks_[at]->Backward(backend_, context_, back, WeightsOf(i), i > 0,
                                         GradientsOf(i), states_[at].get()));
  }
}

}  // namespace sangam
