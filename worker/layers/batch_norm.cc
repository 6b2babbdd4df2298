#include "worker/layers/batch_norm.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

LayerDemand BatchNormLayer::demand() const {
  return BatchNormDemand(options_.positions, options_.width);
}

absl::StatusOr<ConstMatrix> BatchNormLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                    LayerState* state) const {
  state->input = input;
  const ConstMatrix rows = Rows(input);
  ConstMatrix mean = Parameter(call, options_.running_mean_offset);
  ConstMatrix variance = Parameter(call, options_.running_variance_offset);
  // Nothing has no mean.
  if (call.context->training && rows.rows > 0) {
    RETURN_IF_ERROR(call.backend->ColumnMoments(rows, Mean(*state), Variance(*state)));
    mean = Mean(*state);
    variance = Variance(*state);
  }
  RETURN_IF_ERROR(call.backend->NormalizeColumns(
      rows, mean, variance, options_.epsilon, Parameter(call, options_.gain_offset),
      Parameter(call, options_.bias_offset), {state->output, rows.rows, options_.width}));
  return ConstMatrix(state->output, input.rows, input.cols);
}

absl::StatusOr<ConstMatrix> BatchNormLayer::BackwardInput(const LayerCall& call,
                                                          ConstMatrix output_gradient,
                                                          bool want_input_gradient,
                                                          LayerState* state) const {
  const ConstMatrix rows = Rows(state->input);
  // The gradient of the input needs those of gain and bias.
  if (rows.rows > 0) {
    RETURN_IF_ERROR(call.backend->BatchNormSums(rows, Mean(*state), Variance(*state),
                                                options_.epsilon, Rows(output_gradient),
                                                Sums(*state)));
  }
  if (!want_input_gradient) return ConstMatrix();
  if (rows.rows > 0) {
    RETURN_IF_ERROR(call.backend->BatchNormBackward(
        rows, Mean(*state), Variance(*state), options_.epsilon,
        Parameter(call, options_.gain_offset), Sums(*state), Rows(output_gradient),
        {state->input_gradient, rows.rows, rows.cols}));
  }
  return ConstMatrix(state->input_gradient, output_gradient.rows, output_gradient.cols);
}

absl::Status BatchNormLayer::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                             LayerState* state) const {
  const ConstMatrix sums = Sums(*state);
  const auto samples = static_cast<float>(state->input.rows);
  const int64_t values = state->input.rows * options_.positions;
  const float terms = samples * static_cast<float>(options_.terms_per_sample);
  const float unbiased =
      values > 1 ? static_cast<float>(values) / static_cast<float>(values - 1) : 1.0f;
  const struct {
    int64_t offset;
    float weight;
    ConstMatrix term;
  } parts[] = {
      {options_.gain_offset, 1, {sums.data, 1, options_.width}},
      {options_.bias_offset, 1, {sums.data + options_.width, 1, options_.width}},
      {options_.running_mean_offset, terms, Mean(*state)},
      {options_.running_variance_offset, terms * unbiased, Variance(*state)},
  };
  for (const auto& part : parts) {
    const Matrix to = {gradients.own + part.offset, 1, options_.width};
    if (values > 0) {
      RETURN_IF_ERROR(call.backend->AddScaled(part.weight, part.term, gradients.accumulate, to));
    } else if (!gradients.accumulate) {
      RETURN_IF_ERROR(call.backend->Fill(0, to));
    }
  }
  return absl::OkStatus();
}

}  // namespace sangam
