#include <cuda_runtime.h>

#include <cstdint>

#include "worker/backend/cuda/for_elements.cuh"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/cuda/window_places.cuh"
#include "worker/backend/cuda/windows.h"
#include "worker/backend/shapes.h"

namespace sangam::cuda_kernels {
namespace {

// Each computes kWidth neighbouring channels.

struct ToRowsBody {
  Windows windows;
  int64_t cols;   // of the rows
  int64_t first;  // pixel
  const float* images;
  float* rows;

  template <int kWidth>
  __device__ void At(int64_t i) const {
    const Place place = PlaceOf(i, cols);
    const Pixel pixel = windows.OutPixel(first + place.row);
    const Place of_kernel = PlaceOf(place.col, windows.channels);
    const Place row_and_column = PlaceOf(of_kernel.row, windows.kernel_width);
    const int y = windows.Begin(pixel.y) + static_cast<int>(row_and_column.row);
    const int x = windows.Begin(pixel.x) + static_cast<int>(row_and_column.col);
    Floats<kWidth> value = {};
    if (y >= 0 && y < windows.in_height && x >= 0 && x < windows.in_width) {
      const int64_t from = (windows.InRow(pixel.image, y) + x) * windows.channels;
      value = Load<kWidth>(images + from + of_kernel.col);
    }
    Store(value, rows + i);
  }
};

struct AddRowsBody {
  Windows windows;
  int64_t cols;
  int64_t first, end;  // pixels
  const float* rows;
  float* images;
  int64_t first_pixel;  // of the images' pixels, of the first image with a row

  template <int kWidth>
  __device__ void At(int64_t i) const {
    const Place place = PlaceOf(i, windows.channels);
    const Pixel pixel = windows.InPixel(first_pixel + place.row);
    float* const to = images + (first_pixel * windows.channels + i);
    Floats<kWidth> sum = Load<kWidth>(to);
    windows.ForOutsOver(pixel, [&](int64_t over, int y, int x) {
      if (over < first || over >= end) return;
      const int row = pixel.y - windows.Begin(y);
      const int col = pixel.x - windows.Begin(x);
      const int64_t at = (int64_t{row} * windows.kernel_width + col) * windows.channels;
      const Floats<kWidth> next = Load<kWidth>(rows + (over - first) * cols + at + place.col);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum.v[k] += next.v[k];
    });
    Store(sum, to);
  }
};

}  // namespace

cudaError_t WindowsToRows(cudaStream_t stream, const WindowShape& shape, const float* images,
                          int64_t first, int64_t count, float* rows) {
  const int64_t cols = WindowElements(shape);
  const bool vector = Aligned16(images, rows) && shape.in.channels % 4 == 0;
  return ForElements(stream, ToRowsBody{WindowsOf(shape), cols, first, images, rows}, count * cols,
                     vector);
}

cudaError_t AddRowsToWindows(cudaStream_t stream, const WindowShape& shape, const float* rows,
                             int64_t first, int64_t count, float* images) {
  const int64_t pixels = shape.out().pixels();
  const int64_t first_image = first / pixels;
  const int64_t end_image = (first + count - 1) / pixels + 1;
  const bool vector = Aligned16(images, rows) && shape.in.channels % 4 == 0;
  return ForElements(stream,
                     AddRowsBody{WindowsOf(shape), WindowElements(shape), first, first + count,
                                 rows, images, first_image * shape.in.pixels()},
                     (end_image - first_image) * shape.in.elements(), vector);
}

}  // namespace sangam::cuda_kernels
