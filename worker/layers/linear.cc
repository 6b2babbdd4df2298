#include "worker/layers/linear.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/model/layer_demand.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"
#include "worker/layers/layer.h"

namespace sangam {

LayerDemand LinearLayer::demand() const {
  return LinearDemand(options_.positions, options_.in_features, options_.out_features,
                      options_.relu);
}

ConstMatrix LinearLayer::Weight(const LayerCall& call) const {
  return {call.weights + options_.weight_offset, options_.out_features, options_.in_features};
}

absl::Status LinearLayer::TellRows(Told* told, int64_t rows) const {
  const int64_t first = options_.weight_offset + told->rows * options_.in_features;
  const int64_t count = (rows - std::exchange(told->rows, rows)) * options_.in_features;
  return (*told->whom)(static_cast<uint64_t>(first), static_cast<uint64_t>(count));
}

absl::StatusOr<ConstMatrix> LinearLayer::Forward(const LayerCall& call, ConstMatrix input,
                                                 LayerState* state) const {
  state->input = input;
  GemmArguments product;
  product.a = Rows(input, options_.in_features);
  product.b = Weight(call);
  product.transpose_b = true;
  product.c = {state->output, product.a.rows, options_.out_features};
  if (options_.bias_offset.has_value()) {
    product.bias = {call.weights + *options_.bias_offset, 1, options_.out_features};
    product.epilogue = options_.relu ? Epilogue::kBiasRelu : Epilogue::kBias;
  }
  Told here{call.arrival, 0};
  // Small enough to be kept without memory of its own.
  const RowsWanted rows_wanted = [this, &here](int64_t rows) -> absl::Status {
    RETURN_IF_ERROR(TellRows(&here, rows));
    if (rows < options_.out_features || !options_.bias_offset.has_value()) return absl::OkStatus();
    return (*here.whom)(static_cast<uint64_t>(*options_.bias_offset),
                        static_cast<uint64_t>(options_.out_features));
  };
  if (call.arrival != nullptr) product.rows_wanted = &rows_wanted;
  RETURN_IF_ERROR(call.backend->Gemm(product));
  if (options_.relu && !options_.bias_offset.has_value()) {
    RETURN_IF_ERROR(call.backend->Activate(Activation::kRelu, product.c, product.c));
  }
  return ConstMatrix(state->output, input.rows, options_.positions * options_.out_features);
}

absl::StatusOr<ConstMatrix> LinearLayer::BackwardInput(const LayerCall& call,
                                                       ConstMatrix output_gradient,
                                                       bool want_input_gradient,
                                                       LayerState* state) const {
  state->weighted_gradient = output_gradient;
  if (options_.relu) {
    const Matrix delta = {state->delta, output_gradient.rows, output_gradient.cols};
    const ConstMatrix output(state->output, output_gradient.rows, output_gradient.cols);
    RETURN_IF_ERROR(
        call.backend->ActivateBackward(Activation::kRelu, output, output_gradient, delta));
    state->weighted_gradient = delta;
  }
  if (!want_input_gradient) return ConstMatrix();
  GemmArguments product;
  product.a = Rows(state->weighted_gradient, options_.out_features);
  product.b = Weight(call);
  product.c = {state->input_gradient, product.a.rows, options_.in_features};
  RETURN_IF_ERROR(call.backend->Gemm(product));
  return ConstMatrix(state->input_gradient, output_gradient.rows,
                     options_.positions * options_.in_features);
}

absl::Status LinearLayer::BackwardWeights(const LayerCall& call, const LayerGradients& gradients,
                                          LayerState* state) const {
  GemmArguments product;
  product.a = Rows(state->weighted_gradient, options_.out_features);
  product.transpose_a = true;
  product.b = Rows(state->input, options_.in_features);
  product.c = {gradients.own + options_.weight_offset, options_.out_features, options_.in_features};
  // BackwardInput, the last to read the weights, came before.
  Told done{gradients.progress, 0};
  const RowsDone rows_done = [this, &done](int64_t rows) { return TellRows(&done, rows); };
  if (gradients.progress != nullptr) product.rows_done = &rows_done;
  if (gradients.terms != nullptr) {
    RETURN_IF_ERROR(call.backend->GemmOfTerms(product.a, product.b, *gradients.terms, product.c,
                                              product.rows_done));
    if (!options_.bias_offset.has_value()) return absl::OkStatus();
    return call.backend->SumRowsOfTerms(
        product.a, *gradients.terms,
        {gradients.own + *options_.bias_offset, 1, options_.out_features});
  }
  product.accumulate = gradients.accumulate;
  RETURN_IF_ERROR(call.backend->Gemm(product));
  if (!options_.bias_offset.has_value()) return absl::OkStatus();
  return call.backend->SumRows(product.a, gradients.accumulate,
                               {gradients.own + *options_.bias_offset, 1, options_.out_features});
}

}  // namespace sangam
