#include "tests/worker/layers/layer_harness.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/model/layer_demand.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam::testing {
namespace {

constexpr int64_t kMaxRows = 64;

std::unique_ptr<Backend> NewBackend() {
  auto backend = CreateBackend("cpu");
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

std::vector<float> Read(Backend* backend, ConstMatrix matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.size()));
  EXPECT_TRUE(backend->Download(matrix, values.data()).ok());
  EXPECT_TRUE(backend->Synchronize().ok());
  return values;
}

}  // namespace

LayerHarness::LayerHarness(const Layer& layer, int64_t in, int64_t out,
                           const std::vector<float>& weights)
    : layer_(layer),
      in_(in),
      out_(out),
      backend_(NewBackend()),
      weights_(backend_.get(), 1, static_cast<int64_t>(weights.size()), weights) {
  MakeState(layer.demand(), &state_);
}

void LayerHarness::MakeState(const LayerDemand& demand, LayerState* state) {
  state->output = Piece(demand.output);
  state->kept = Piece(demand.kept);
  state->delta = Piece(demand.delta);
  state->input_gradient = Piece(demand.input_gradient);
  state->inner.resize(demand.inner.size());
  for (size_t i = 0; i < demand.inner.size(); ++i) MakeState(demand.inner[i], &state->inner[i]);
}

float* LayerHarness::Piece(int64_t size_of_sample) {
  if (size_of_sample == 0) return nullptr;
  pieces_.push_back(std::make_unique<DeviceMatrix>(backend_.get(), kMaxRows, size_of_sample));
  return pieces_.back()->view().data;
}

LayerCall LayerHarness::Call() const {
  return {backend_.get(), &context, weights_.view().data, weights_.view().data};
}

std::vector<float> LayerHarness::Forward(const std::vector<float>& x) {
  const int64_t rows = static_cast<int64_t>(x.size()) / in_;
  x_ = std::make_unique<DeviceMatrix>(backend_.get(), rows, in_, x);
  const auto y = layer_.Forward(Call(), x_->view(), &state_);
  EXPECT_TRUE(y.ok()) << y.status();
  if (!y.ok()) return {};
  EXPECT_EQ(y->rows, rows);
  EXPECT_EQ(y->cols, out_);
  return Read(backend_.get(), *y);
}

std::vector<float> LayerHarness::BackwardInput(const std::vector<float>& dy,
                                               bool want_input_gradient) {
  const int64_t rows = static_cast<int64_t>(dy.size()) / out_;
  dy_ = std::make_unique<DeviceMatrix>(backend_.get(), rows, out_, dy);
  const auto dx = layer_.BackwardInput(Call(), dy_->view(), want_input_gradient, &state_);
  EXPECT_TRUE(dx.ok()) << dx.status();
  if (!dx.ok()) return {};
  EXPECT_EQ(dx->rows, want_input_gradient ? rows : 0);
  EXPECT_EQ(dx->cols, want_input_gradient ? in_ : 0);
  return Read(backend_.get(), *dx);
}

std::vector<float> LayerHarness::BackwardWeights(bool accumulate,
                                                 const std::vector<float>& before) {
  const DeviceMatrix gradient(backend_.get(), 1, static_cast<int64_t>(before.size()), before);
  const absl::Status status = layer_.BackwardWeights(
      Call(), {gradient.view().data, gradient.view().data, accumulate}, &state_);
  EXPECT_TRUE(status.ok()) << status;
  return gradient.Read();
}

}  // namespace sangam::testing
