#ifndef SANGAM_WORKER_BACKEND_CUDA_WINDOW_PLACES_CUH_
#define SANGAM_WORKER_BACKEND_CUDA_WINDOW_PLACES_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/backend/cuda/for_elements.cuh"
#include "worker/backend/shapes.h"

// Where windows lie on images, from either side.
namespace sangam::cuda_kernels {

// A pixel of an image, counted over all images.
struct Pixel {
  int64_t image;
  int y, x;
};

// Rows, or columns, [begin, end).
struct Range {
  int begin, end;
};

// A WindowShape for kernels: its sizes fit into an int.
struct Windows {
  int in_height, in_width, channels;
  int kernel_height, kernel_width, stride, padding;
  int out_height, out_width;

  __device__ Pixel InPixel(int64_t index) const { return PixelOf(index, in_height, in_width); }
  __device__ Pixel OutPixel(int64_t index) const { return PixelOf(index, out_height, out_width); }

  // The first pixel's number in its image's row `y`.
  __device__ int64_t InRow(int64_t image, int y) const {
    return (image * in_height + y) * in_width;
  }

  // Where the window of an out row or column begins; it may be outside.
  __device__ int Begin(int out) const { return out * stride - padding; }
  // What it covers of the image.
  __device__ Range RowsOf(int out) const { return Covered(Begin(out), kernel_height, in_height); }
  __device__ Range ColumnsOf(int out) const { return Covered(Begin(out), kernel_width, in_width); }

  // visit(pixel's number, y, x) for what the window of an out pixel covers, row after row.
  template <typename Visit>
  __device__ void ForCovered(const Pixel& out, const Visit& visit) const {
    ForPixels(RowsOf(out.y), ColumnsOf(out.x), InRow(out.image, 0), in_width, visit);
  }
  // The same for the out pixels whose windows cover one of the image.
  template <typename Visit>
  __device__ void ForOutsOver(const Pixel& in, const Visit& visit) const {
    ForPixels(Over(in.y, kernel_height, out_height), Over(in.x, kernel_width, out_width),
              in.image * out_height * out_width, out_width, visit);
  }

 private:
  // first: number of the image's first pixel.
  template <typename Visit>
  __device__ static void ForPixels(Range rows, Range cols, int64_t first, int width,
                                   const Visit& visit) {
    for (int y = rows.begin; y < rows.end; ++y) {
      const int64_t row = first + int64_t{y} * width;
      for (int x = cols.begin; x < cols.end; ++x) visit(row + x, y, x);
    }
  }
  __device__ static Pixel PixelOf(int64_t index, int height, int width) {
    const Place row = PlaceOf(index, width);
    const Place image = PlaceOf(row.row, height);
    return {image.row, static_cast<int>(image.col), static_cast<int>(row.col)};
  }
  __device__ static Range Covered(int begin, int kernel, int size) {
    return {max(begin, 0), min(begin + kernel, size)};
  }
  __device__ Range Over(int in, int kernel, int out_size) const {
    const int padded = in + padding;
    const int first = padded < kernel ? 0 : (padded - kernel) / stride + 1;
    return {first, min(padded / stride + 1, out_size)};
  }
};

inline Windows WindowsOf(const WindowShape& shape) {
  const ImageShape out = shape.out();
  Windows windows;
  windows.in_height = static_cast<int>(shape.in.height);
  windows.in_width = static_cast<int>(shape.in.width);
  windows.channels = static_cast<int>(shape.in.channels);
  windows.kernel_height = static_cast<int>(shape.window.kernel_height);
  windows.kernel_width = static_cast<int>(shape.window.kernel_width);
  windows.stride = static_cast<int>(shape.window.stride);
  windows.padding = static_cast<int>(shape.window.padding);
  windows.out_height = static_cast<int>(out.height);
  windows.out_width = static_cast<int>(out.width);
  return windows;
}

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_WINDOW_PLACES_CUH_
