#include "worker/layers/concat.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"
#include "worker/layers/layer_chain.h"

namespace sangam {

ConcatLayer::ConcatLayer(int64_t size, int64_t positions, std::vector<Branch> branches)
    : size_(size), positions_(positions), branches_(std::move(branches)) {
  for (const Branch& branch : branches_) width_ += branch.width;
}

LayerDemand ConcatLayer::demand() const {
  std::vector<LayerDemand> chains;
  for (const Branch& branch : branches_) chains.push_back(ChainDemand(branch.layers.demands()));
  return ConcatDemand(size_, positions_ * width_, std::move(chains));
}

bool ConcatLayer::has_parameters() const {
  return std::any_of(branches_.begin(), branches_.end(),
                     [](const Branch& branch) { return branch.layers.has_parameters(); });
}

absl::StatusOr<ConstMatrix> ConcatLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                 LayerState* state) const {
  const int64_t rows = input.rows * positions_;
  const Matrix output = {state->output, rows, width_};
  int64_t column = 0;
  for (size_t b = 0; b < branches_.size(); ++b) {
    const Branch& branch = branches_[b];
    ASSIGN_OR_RETURN(const ConstMatrix of_branch,
                     branch.layers.Forward(call, input, &state->inner[b].inner));
    RETURN_IF_ERROR(call.backend->CopyColumns({of_branch.data, rows, branch.width}, 0, branch.width,
                                              output, column));
    column += branch.width;
  }
  return ConstMatrix(state->output, input.rows, positions_ * width_);
}

absl::StatusOr<ConstMatrix> ConcatLayer::BackwardInput(const LayerCall& call,
                                                       ConstMatrix output_gradient,
                                                       bool want_input_gradient,
                                                       LayerState* state) const {
  const int64_t rows = output_gradient.rows * positions_;
  const ConstMatrix gradient(output_gradient.data, rows, width_);
  const Matrix sum = {state->input_gradient, output_gradient.rows, size_};
  ConstMatrix input_gradient;
  int64_t column = 0;
  for (size_t b = 0; b < branches_.size(); ++b) {
    const Branch& branch = branches_[b];
    // Each branch's part is kept by itself, until BackwardWeights.
    const Matrix part = {state->delta + rows * column, rows, branch.width};
    RETURN_IF_ERROR(call.backend->CopyColumns(gradient, column, branch.width, part, 0));
    ASSIGN_OR_RETURN(const ConstMatrix of_branch,
                     branch.layers.BackwardInput(
                         call, {part.data, output_gradient.rows, positions_ * branch.width},
                         want_input_gradient, &state->inner[b].inner));
    column += branch.width;
    if (!want_input_gradient) continue;
    if (b == 0) {
      input_gradient = of_branch;
      continue;
    }
    RETURN_IF_ERROR(call.backend->Add(input_gradient, of_branch, sum));
    input_gradient = sum;
  }
  return input_gradient;
}

absl::Status ConcatLayer::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                          LayerState* state) const {
  for (size_t b = 0; b < branches_.size(); ++b) {
    RETURN_IF_ERROR(branches_[b].layers.BackwardWeights(call, gradients, &state->inner[b].inner));
  }
  return absl::OkStatus();
}

}  // namespace sangam
