#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/checks.h"
#include "worker/backend/views.h"

// The operations of Backend on images: what is asked for is checked here.
namespace sangam {
namespace {

// Sizes of images and windows stay below it, so that products of three fit.
constexpr int64_t kMaxSize = int64_t{1} << 20;

absl::Status CheckWindow(absl::string_view operation, const WindowShape& shape) {
  const auto& [in, window, out_channels] = shape;
  for (const int64_t size : {in.height, in.width, in.channels, window.kernel_height,
                             window.kernel_width, window.stride, out_channels}) {
    if (size >= 1 && size <= kMaxSize) continue;
    return absl::InvalidArgumentError(absl::StrCat(operation, ": found a size of ", size,
                                                   ", expected one in [1, ", kMaxSize, "]"));
  }
  const int64_t smallest = std::min(window.kernel_height, window.kernel_width);
  if (window.padding < 0 || window.padding >= smallest) {
    return absl::InvalidArgumentError(absl::StrCat(operation, ": padding is ", window.padding,
                                                   ", expected at least 0 and below ", smallest));
  }
  if (window.kernel_height > in.height + 2 * window.padding ||
      window.kernel_width > in.width + 2 * window.padding) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation, ": kernel is ", window.kernel_height, " x ", window.kernel_width,
                     ", expected at most the padded image's ", in.height + 2 * window.padding,
                     " x ", in.width + 2 * window.padding));
  }
  return absl::OkStatus();
}

absl::Status CheckPooling(absl::string_view operation, const WindowShape& shape) {
  RETURN_IF_ERROR(CheckWindow(operation, shape));
  if (shape.in.channels == shape.out_channels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(operation, ": found ", shape.out_channels,
                                                 " channels of results, expected ",
                                                 shape.in.channels));
}

// A matrix with one image per row.
absl::Status CheckImages(absl::string_view operation, absl::string_view name, ConstMatrix images,
                         int64_t rows, const ImageShape& shape) {
  return CheckShape(operation, name, images, rows, shape.elements());
}

absl::Status CheckWeight(absl::string_view operation, absl::string_view name,
                         const WindowShape& shape, ConstMatrix weight) {
  return CheckShape(operation, name, weight, shape.out_channels,
                    shape.window.kernel_height * shape.window.kernel_width * shape.in.channels);
}

}  // namespace

absl::Status Backend::Conv2d(const WindowShape& shape, ConstMatrix in, ConstMatrix weight,
                             Epilogue epilogue, ConstMatrix bias, Matrix out) {
  constexpr absl::string_view kOperation = "conv2d";
  RETURN_IF_ERROR(CheckWindow(kOperation, shape));
  RETURN_IF_ERROR(CheckImages(kOperation, "in", in, in.rows, shape.in));
  RETURN_IF_ERROR(CheckWeight(kOperation, "weight", shape, weight));
  RETURN_IF_ERROR(CheckImages(kOperation, "out", out, in.rows, shape.out()));
  RETURN_IF_ERROR(CheckApartFromAll(kOperation, {{"in", in}, {"weight", weight}}, out));
  if (epilogue != Epilogue::kNone) {
    RETURN_IF_ERROR(CheckShape(kOperation, "bias", bias, 1, shape.out_channels));
    RETURN_IF_ERROR(CheckApart(kOperation, "bias", bias, out));
  }
  return out.size() == 0 ? absl::OkStatus() : DoConv2d(shape, in, weight, epilogue, bias, out);
}

absl::Status Backend::Conv2dBackwardInput(const WindowShape& shape, ConstMatrix weight,
                                          ConstMatrix output_gradient, Matrix input_gradient) {
  constexpr absl::string_view kOperation = "conv2d backward input";
  RETURN_IF_ERROR(CheckWindow(kOperation, shape));
  RETURN_IF_ERROR(CheckWeight(kOperation, "weight", shape, weight));
  RETURN_IF_ERROR(CheckImages(kOperation, "output_gradient", output_gradient, output_gradient.rows,
                              shape.out()));
  RETURN_IF_ERROR(
      CheckImages(kOperation, "input_gradient", input_gradient, output_gradient.rows, shape.in));
  RETURN_IF_ERROR(CheckApartFromAll(
      kOperation, {{"weight", weight}, {"output_gradient", output_gradient}}, input_gradient));
  if (input_gradient.size() == 0) return absl::OkStatus();
  return DoConv2dBackwardInput(shape, weight, output_gradient, input_gradient);
}

absl::Status Backend::Conv2dBackwardWeight(const WindowShape& shape, ConstMatrix in,
                                           ConstMatrix output_gradient, bool accumulate,
                                           Matrix weight_gradient) {
  constexpr absl::string_view kOperation = "conv2d backward weight";
  RETURN_IF_ERROR(CheckWindow(kOperation, shape));
  RETURN_IF_ERROR(CheckImages(kOperation, "in", in, in.rows, shape.in));
  RETURN_IF_ERROR(
      CheckImages(kOperation, "output_gradient", output_gradient, in.rows, shape.out()));
  RETURN_IF_ERROR(CheckWeight(kOperation, "weight_gradient", shape, weight_gradient));
  RETURN_IF_ERROR(CheckApartFromAll(kOperation, {{"in", in}, {"output_gradient", output_gradient}},
                                    weight_gradient));
  return DoConv2dBackwardWeight(shape, in, output_gradient, accumulate, weight_gradient);
}

absl::Status Backend::MaxPool2d(const WindowShape& shape, ConstMatrix in, Matrix out) {
  constexpr absl::string_view kOperation = "max pool";
  RETURN_IF_ERROR(CheckPooling(kOperation, shape));
  RETURN_IF_ERROR(CheckImages(kOperation, "in", in, in.rows, shape.in));
  RETURN_IF_ERROR(CheckImages(kOperation, "out", out, in.rows, shape.out()));
  RETURN_IF_ERROR(CheckApart(kOperation, "in", in, out));
  return out.size() == 0 ? absl::OkStatus() : DoMaxPool2d(shape, in, out);
}

absl::Status Backend::MaxPool2dBackward(const WindowShape& shape, ConstMatrix in, ConstMatrix out,
                                        ConstMatrix output_gradient, Matrix input_gradient) {
  constexpr absl::string_view kOperation = "max pool backward";
  RETURN_IF_ERROR(CheckPooling(kOperation, shape));
  RETURN_IF_ERROR(CheckImages(kOperation, "in", in, in.rows, shape.in));
  RETURN_IF_ERROR(CheckImages(kOperation, "out", out, in.rows, shape.out()));
  RETURN_IF_ERROR(
      CheckImages(kOperation, "output_gradient", output_gradient, in.rows, shape.out()));
  RETURN_IF_ERROR(CheckImages(kOperation, "input_gradient", input_gradient, in.rows, shape.in));
  RETURN_IF_ERROR(CheckApartFromAll(
      kOperation, {{"in", in}, {"out", out}, {"output_gradient", output_gradient}},
      input_gradient));
  if (input_gradient.size() == 0) return absl::OkStatus();
  return DoMaxPool2dBackward(shape, in, out, output_gradient, input_gradient);
}

absl::Status Backend::AveragePool2d(const WindowShape& shape, ConstMatrix in, Matrix out) {
  constexpr absl::string_view kOperation = "average pool";
  RETURN_IF_ERROR(CheckPooling(kOperation, shape));
  RETURN_IF_ERROR(CheckImages(kOperation, "in", in, in.rows, shape.in));
  RETURN_IF_ERROR(CheckImages(kOperation, "out", out, in.rows, shape.out()));
  RETURN_IF_ERROR(CheckApart(kOperation, "in", in, out));
  return out.size() == 0 ? absl::OkStatus() : DoAveragePool2d(shape, in, out);
}

absl::Status Backend::AveragePool2dBackward(const WindowShape& shape, ConstMatrix output_gradient,
                                            Matrix input_gradient) {
  constexpr absl::string_view kOperation = "average pool backward";
  RETURN_IF_ERROR(CheckPooling(kOperation, shape));
  RETURN_IF_ERROR(CheckImages(kOperation, "output_gradient", output_gradient, output_gradient.rows,
                              shape.out()));
  RETURN_IF_ERROR(
      CheckImages(kOperation, "input_gradient", input_gradient, output_gradient.rows, shape.in));
  RETURN_IF_ERROR(CheckApart(kOperation, "output_gradient", output_gradient, input_gradient));
  if (input_gradient.size() == 0) return absl::OkStatus();
  return DoAveragePool2dBackward(shape, output_gradient, input_gradient);
}

}  // namespace sangam
