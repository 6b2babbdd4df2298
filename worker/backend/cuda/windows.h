#ifndef SANGAM_WORKER_BACKEND_CUDA_WINDOWS_H_
#define SANGAM_WORKER_BACKEND_CUDA_WINDOWS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/backend/shapes.h"

// Windows over images as rows of a matrix. Result pixels are counted over all images: pixel p is
// (p / (width * height), p / width, p) of the results.
namespace sangam::cuda_kernels {

// Elements of one window: kernel rows, kernel columns, channels.
inline int64_t WindowElements(const WindowShape& shape) {
  return shape.window.kernel_height * shape.window.kernel_width * shape.in.channels;
}

// rows[p - first, :] = what the window of pixel p covers, 0 outside of the image, for `count`
// pixels.
cudaError_t WindowsToRows(cudaStream_t stream, const WindowShape& shape, const float* images,
                          int64_t first, int64_t count, float* rows);

// The other way: images[.] += the elements of the rows that lie there, pixel after pixel. Gathers:
// each element of the images that the pixels belong to is written once.
cudaError_t AddRowsToWindows(cudaStream_t stream, const WindowShape& shape, const float* rows,
                             int64_t first, int64_t count, float* images);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_WINDOWS_H_
