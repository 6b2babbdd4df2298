#include <cstdint>
#include <initializer_list>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/checks.h"
#include "worker/backend/views.h"

// The operations of Backend that norms over the batch and over rows are made of: what is asked for
// is checked here.
namespace sangam {
namespace {

// One number per column of `in`, for each name.
absl::Status CheckColumnVectors(
    absl::string_view operation, ConstMatrix in,
    std::initializer_list<std::pair<absl::string_view, ConstMatrix>> vectors) {
  RETURN_IF_ERROR(CheckView(operation, "in", in));
  for (const auto& [name, vector] : vectors) {
    RETURN_IF_ERROR(CheckShape(operation, name, vector, 1, in.cols));
  }
  return absl::OkStatus();
}

absl::Status CheckNotEmpty(absl::string_view operation, ConstMatrix in, int64_t size,
                           absl::string_view what) {
  if (size > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": in is ", ShapeText(in), ", expected at least one ", what));
}

// What the operations of the norm over a row share.
absl::Status CheckRows(absl::string_view operation, ConstMatrix in, ConstMatrix mean,
                       ConstMatrix inverse_deviation) {
  RETURN_IF_ERROR(CheckView(operation, "in", in));
  RETURN_IF_ERROR(CheckNotEmpty(operation, in, in.cols, "column"));
  RETURN_IF_ERROR(CheckShape(operation, "mean", mean, in.rows, 1));
  return CheckShape(operation, "inverse_deviation", inverse_deviation, in.rows, 1);
}

}  // namespace

absl::Status Backend::ColumnMoments(ConstMatrix in, Matrix mean, Matrix variance) {
  constexpr absl::string_view kOperation = "column moments";
  RETURN_IF_ERROR(CheckColumnVectors(kOperation, in, {{"mean", mean}, {"variance", variance}}));
  RETURN_IF_ERROR(CheckNotEmpty(kOperation, in, in.rows, "row"));
  RETURN_IF_ERROR(CheckApart(kOperation, "in", in, mean));
  RETURN_IF_ERROR(CheckApartFromAll(kOperation, {{"in", in}, {"mean", mean}}, variance));
  return in.cols == 0 ? absl::OkStatus() : DoColumnMoments(in, mean, variance);
}

absl::Status Backend::NormalizeColumns(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                       float epsilon, ConstMatrix gain, ConstMatrix bias,
                                       Matrix out) {
  constexpr absl::string_view kOperation = "normalize columns";
  RETURN_IF_ERROR(CheckColumnVectors(
      kOperation, in, {{"mean", mean}, {"variance", variance}, {"gain", gain}, {"bias", bias}}));
  RETURN_IF_ERROR(CheckEpsilon(kOperation, epsilon));
  RETURN_IF_ERROR(CheckView(kOperation, "out", out));
  RETURN_IF_ERROR(CheckElementwise(kOperation, "in", in, out));
  RETURN_IF_ERROR(CheckApartFromAll(
      kOperation, {{"mean", mean}, {"variance", variance}, {"gain", gain}, {"bias", bias}}, out));
  if (out.size() == 0) return absl::OkStatus();
  return DoNormalizeColumns(in, mean, variance, epsilon, gain, bias, out);
}

absl::Status Backend::BatchNormSums(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                    float epsilon, ConstMatrix output_gradient, Matrix sums) {
  constexpr absl::string_view kOperation = "batch norm sums";
  RETURN_IF_ERROR(CheckColumnVectors(kOperation, in, {{"mean", mean}, {"variance", variance}}));
  RETURN_IF_ERROR(CheckEpsilon(kOperation, epsilon));
  RETURN_IF_ERROR(CheckShape(kOperation, "output_gradient", output_gradient, in.rows, in.cols));
  RETURN_IF_ERROR(CheckShape(kOperation, "sums", sums, 2, in.cols));
  RETURN_IF_ERROR(CheckApartFromAll(
      kOperation,
      {{"in", in}, {"mean", mean}, {"variance", variance}, {"output_gradient", output_gradient}},
      sums));
  if (in.cols == 0) return absl::OkStatus();
  return DoBatchNormSums(in, mean, variance, epsilon, output_gradient, sums);
}

absl::Status Backend::BatchNormBackward(ConstMatrix in, ConstMatrix mean, ConstMatrix variance,
                                        float epsilon, ConstMatrix gain, ConstMatrix sums,
                                        ConstMatrix output_gradient, Matrix input_gradient) {
  constexpr absl::string_view kOperation = "batch norm backward";
  RETURN_IF_ERROR(
      CheckColumnVectors(kOperation, in, {{"mean", mean}, {"variance", variance}, {"gain", gain}}));
  RETURN_IF_ERROR(CheckEpsilon(kOperation, epsilon));
  RETURN_IF_ERROR(CheckShape(kOperation, "sums", sums, 2, in.cols));
  RETURN_IF_ERROR(CheckView(kOperation, "input_gradient", input_gradient));
  RETURN_IF_ERROR(CheckElementwise(kOperation, "in", in, input_gradient));
  RETURN_IF_ERROR(CheckElementwise(kOperation, "output_gradient", output_gradient, input_gradient));
  RETURN_IF_ERROR(CheckApartFromAll(
      kOperation, {{"mean", mean}, {"variance", variance}, {"gain", gain}, {"sums", sums}},
      input_gradient));
  if (input_gradient.size() == 0) return absl::OkStatus();
  return DoBatchNormBackward(in, mean, variance, epsilon, gain, sums, output_gradient,
                             input_gradient);
}

absl::Status Backend::LayerNorm(ConstMatrix in, ConstMatrix gain, ConstMatrix bias, float epsilon,
                                Matrix out, Matrix mean, Matrix inverse_deviation) {
  constexpr absl::string_view kOperation = "layer norm";
  RETURN_IF_ERROR(CheckRows(kOperation, in, mean, inverse_deviation));
  RETURN_IF_ERROR(CheckColumnVectors(kOperation, in, {{"gain", gain}, {"bias", bias}}));
  RETURN_IF_ERROR(CheckEpsilon(kOperation, epsilon));
  RETURN_IF_ERROR(CheckShape(kOperation, "out", out, in.rows, in.cols));
  RETURN_IF_ERROR(CheckApartFromAll(kOperation, {{"in", in}, {"gain", gain}, {"bias", bias}}, out));
  RETURN_IF_ERROR(CheckApartFromAll(
      kOperation, {{"in", in}, {"gain", gain}, {"bias", bias}, {"out", out}}, mean));
  RETURN_IF_ERROR(CheckApartFromAll(
      kOperation, {{"in", in}, {"gain", gain}, {"bias", bias}, {"out", out}, {"mean", mean}},
      inverse_deviation));
  if (out.size() == 0) return absl::OkStatus();
  return DoLayerNorm(in, gain, bias, epsilon, out, mean, inverse_deviation);
}

absl::Status Backend::LayerNormBackward(ConstMatrix in, ConstMatrix gain, ConstMatrix mean,
                                        ConstMatrix inverse_deviation, ConstMatrix output_gradient,
                                        Matrix input_gradient) {
  constexpr absl::string_view kOperation = "layer norm backward";
  RETURN_IF_ERROR(CheckRows(kOperation, in, mean, inverse_deviation));
  RETURN_IF_ERROR(CheckColumnVectors(kOperation, in, {{"gain", gain}}));
  RETURN_IF_ERROR(CheckShape(kOperation, "output_gradient", output_gradient, in.rows, in.cols));
  RETURN_IF_ERROR(CheckShape(kOperation, "input_gradient", input_gradient, in.rows, in.cols));
  RETURN_IF_ERROR(CheckApartFromAll(kOperation,
                                    {{"in", in},
                                     {"gain", gain},
                                     {"mean", mean},
                                     {"inverse_deviation", inverse_deviation},
                                     {"output_gradient", output_gradient}},
                                    input_gradient));
  if (input_gradient.size() == 0) return absl::OkStatus();
  return DoLayerNormBackward(in, gain, mean, inverse_deviation, output_gradient, input_gradient);
}

absl::Status Backend::LayerNormParameterGradients(ConstMatrix in, ConstMatrix mean,
                                                  ConstMatrix inverse_deviation,
                                                  ConstMatrix output_gradient, bool accumulate,
                                                  Matrix gain_gradient, Matrix bias_gradient) {
  constexpr absl::string_view kOperation = "layer norm parameter gradients";
  RETURN_IF_ERROR(CheckRows(kOperation, in, mean, inverse_deviation));
  RETURN_IF_ERROR(CheckShape(kOperation, "output_gradient", output_gradient, in.rows, in.cols));
  RETURN_IF_ERROR(CheckColumnVectors(
      kOperation, in, {{"gain_gradient", gain_gradient}, {"bias_gradient", bias_gradient}}));
  for (const Matrix out : {gain_gradient, bias_gradient}) {
    RETURN_IF_ERROR(CheckApartFromAll(kOperation,
                                      {{"in", in},
                                       {"mean", mean},
                                       {"inverse_deviation", inverse_deviation},
                                       {"output_gradient", output_gradient}},
                                      out));
  }
  RETURN_IF_ERROR(CheckApart(kOperation, "gain_gradient", gain_gradient, bias_gradient));
  return DoLayerNormParameterGradients(in, mean, inverse_deviation, output_gradient, accumulate,
                                       gain_gradient, bias_gradient);
}

}  // namespace sangam
