#include "worker/backend/cuda/conv2d.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/windows.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam {
namespace {

// Floats of the rows that are there at once: 64 MiB, enough for every product to fill a device.
constexpr int64_t kTileElements = int64_t{1} << 24;

int64_t TilePixels(const WindowShape& shape, int64_t pixels) {
  return std::min(pixels,
                  std::max<int64_t>(1, kTileElements / cuda_kernels::WindowElements(shape)));
}

// One pixel's window is one pixel: images are the rows already.
bool IsPointwise(const WindowShape& shape) {
  const Window2d& window = shape.window;
  return window.kernel_height == 1 && window.kernel_width == 1 && window.stride == 1;
}

}  // namespace

absl::StatusOr<float*> CudaConv2d::Rows(int64_t count, int64_t cols) {
  ASSIGN_OR_RETURN(void* const rows, rows_.Get(count * cols * static_cast<int64_t>(sizeof(float))));
  return static_cast<float*>(rows);
}

absl::Status CudaConv2d::Forward(const WindowShape& shape, ConstMatrix in, ConstMatrix weight,
                                 Epilogue epilogue, ConstMatrix bias, Matrix out) {
  const int64_t pixels = in.rows * shape.out().pixels();
  GemmArguments product;
  product.b = weight;
  product.transpose_b = true;
  product.epilogue = epilogue;
  product.bias = bias;
  if (IsPointwise(shape)) {
    product.a = {in.data, pixels, shape.in.channels};
    product.c = {out.data, pixels, shape.out_channels};
    return products_->Multiply(product);
  }
  const int64_t tile = TilePixels(shape, pixels);
  ASSIGN_OR_RETURN(float* const rows, Rows(tile, weight.cols));
  for (int64_t first = 0; first < pixels; first += tile) {
    const int64_t count = std::min(tile, pixels - first);
    RETURN_IF_ERROR(lane_->Launch("conv2d", [&](cudaStream_t stream) {
      return cuda_kernels::WindowsToRows(stream, shape, in.data, first, count, rows);
    }));
    product.a = {rows, count, weight.cols};
    product.c = {out.data + first * shape.out_channels, count, shape.out_channels};
    RETURN_IF_ERROR(products_->Multiply(product));
  }
  return absl::OkStatus();
}

absl::Status CudaConv2d::BackwardInput(const WindowShape& shape, ConstMatrix weight,
                                       ConstMatrix output_gradient, Matrix input_gradient) {
  const int64_t pixels = output_gradient.rows * shape.out().pixels();
  GemmArguments product;
  product.b = weight;
  if (IsPointwise(shape)) {
    product.a = {output_gradient.data, pixels, shape.out_channels};
    product.c = {input_gradient.data, pixels, shape.in.channels};
    return products_->Multiply(product);
  }
  const int64_t tile = TilePixels(shape, pixels);
  ASSIGN_OR_RETURN(float* const rows, Rows(tile, weight.cols));
  RETURN_IF_ERROR(lane_->Launch("conv2d backward input", [&](cudaStream_t stream) {
    return cudaMemsetAsync(input_gradient.data, 0,
                           static_cast<size_t>(input_gradient.size()) * sizeof(float), stream);
  }));
  for (int64_t first = 0; first < pixels; first += tile) {
    const int64_t count = std::min(tile, pixels - first);
    product.a = {output_gradient.data + first * shape.out_channels, count, shape.out_channels};
    product.c = {rows, count, weight.cols};
    RETURN_IF_ERROR(products_->Multiply(product));
    RETURN_IF_ERROR(lane_->Launch("conv2d backward input", [&](cudaStream_t stream) {
      return cuda_kernels::AddRowsToWindows(stream, shape, rows, first, count, input_gradient.data);
    }));
  }
  return absl::OkStatus();
}

absl::Status CudaConv2d::BackwardWeight(const WindowShape& shape, ConstMatrix in,
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
    return products_->Multiply(product);
  }
  const int64_t tile = TilePixels(shape, pixels);
  ASSIGN_OR_RETURN(float* const rows, Rows(tile, weight_gradient.cols));
  for (int64_t first = 0; first < pixels; first += tile) {
    const int64_t count = std::min(tile, pixels - first);
    RETURN_IF_ERROR(lane_->Launch("conv2d backward weight", [&](cudaStream_t stream) {
      return cuda_kernels::WindowsToRows(stream, shape, in.data, first, count, rows);
    }));
    product.a = {output_gradient.data + first * shape.out_channels, count, shape.out_channels};
    product.b = {rows, count, weight_gradient.cols};
    RETURN_IF_ERROR(products_->Multiply(product));
    product.accumulate = true;
  }
  return absl::OkStatus();
}

}  // namespace sangam
