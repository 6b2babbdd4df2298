#include "worker/backend/cpu/conv2d.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/gemm.h"
#include "worker/backend/cpu/windows.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

// Floats of a tile: half of a usual second-level cache.
constexpr int64_t kTileElements = int64_t{1} << 16;
// A tile has at least so many pixels, however large a window is.
constexpr int64_t kMinTilePixels = 16;

int64_t TilePixels(const WindowShape& shape) {
  return std::max(kMinTilePixels, kTileElements / cpu_kernels::WindowElements(shape));
}

// One pixel's window is one pixel: images are the rows already.
bool IsPointwise(const WindowShape& shape) {
  const Window2d& window = shape.window;
  return window.kernel_height == 1 && window.kernel_width == 1 && window.stride == 1;
}

}  // namespace

absl::Status CpuConv2d::Reserve(int64_t size) {
  if (static_cast<int64_t>(scratch_.size()) >= size) return absl::OkStatus();
  scratch_ = FloatBuffer();  // frees first
  ASSIGN_OR_RETURN(scratch_, FloatBuffer::Allocate(static_cast<size_t>(size)));
  return absl::OkStatus();
}

absl::Status CpuConv2d::Forward(CpuGemm* gemm, const WindowShape& shape, ConstMatrix in,
                                ConstMatrix weight, Matrix out) {
  const int64_t pixels = in.rows * shape.out().pixels();
  GemmArguments product;
  product.b = weight;
  product.transpose_b = true;
  if (IsPointwise(shape)) {
    product.a = {in.data, pixels, shape.in.channels};
    product.c = {out.data, pixels, shape.out_channels};
    return gemm->Multiply(product);
  }
  const int64_t tile = std::min(pixels, TilePixels(shape));
  RETURN_IF_ERROR(Reserve(tile * weight.cols));
  for (int64_t first = 0; first < pixels; first += tile) {
    const int64_t count = std::min(tile, pixels - first);
    cpu_kernels::WindowsToRows(shape, in.data, first, count, scratch_.data());
    product.a = {scratch_.data(), count, weight.cols};
    product.c = {out.data + first * shape.out_channels, count, shape.out_channels};
    RETURN_IF_ERROR(gemm->Multiply(product));
  }
  return absl::OkStatus();
}

absl::Status CpuConv2d::BackwardInput(CpuGemm* gemm, const WindowShape& shape, ConstMatrix weight,
                                      ConstMatrix output_gradient, Matrix input_gradient) {
  const int64_t pixels = output_gradient.rows * shape.out().pixels();
  GemmArguments product;
  product.b = weight;
  if (IsPointwise(shape)) {
    product.a = {output_gradient.data, pixels, shape.out_channels};
    product.c = {input_gradient.data, pixels, shape.in.channels};
    return gemm->Multiply(product);
  }
  const int64_t tile = std::min(pixels, TilePixels(shape));
  RETURN_IF_ERROR(Reserve(tile * weight.cols));
  std::fill_n(input_gradient.data, input_gradient.size(), 0.0f);
  for (int64_t first = 0; first < pixels; first += tile) {
    const int64_t count = std::min(tile, pixels - first);
    product.a = {output_gradient.data + first * shape.out_channels, count, shape.out_channels};
    product.c = {scratch_.data(), count, weight.cols};
    RETURN_IF_ERROR(gemm->Multiply(product));
    cpu_kernels::AddRowsToWindows(shape, scratch_.data(), first, count, input_gradient.data);
  }
  return absl::OkStatus();
}

absl::Status CpuConv2d::BackwardWeight(CpuGemm* gemm, const WindowShape& shape, ConstMatrix in,
                                       ConstMatrix output_gradient, bool accumulate,
                                       Matrix weight_gradient) {
  const int64_t pixels = in.rows * shape.out().pixels();
  GemmArguments product;
  product.transpose_a = true;
  product.c = weight_gradient;
  product.accumulate = accumulate;
  if (pixels == 0 || IsPointwise(shape)) {
    product.a = {output_gradient.data, pixels, shape.out_channels};
    product.b = {in.data, pixels, weight_gradient.cols};
    return gemm->Multiply(product);
  }
  const int64_t tile = std::min(pixels, TilePixels(shape));
  RETURN_IF_ERROR(Reserve(tile * weight_gradient.cols));
  for (int64_t first = 0; first < pixels; first += tile) {
    const int64_t count = std::min(tile, pixels - first);
    cpu_kernels::WindowsToRows(shape, in.data, first, count, scratch_.data());
    product.a = {output_gradient.data + first * shape.out_channels, count, shape.out_channels};
    product.b = {scratch_.data(), count, weight_gradient.cols};
    RETURN_IF_ERROR(gemm->Multiply(product));
    product.accumulate = true;
  }
  return absl::OkStatus();
}

}  // namespace sangam
