#ifndef SANGAM_WORKER_BACKEND_CUDA_ROTARY_H_
#define SANGAM_WORKER_BACKEND_CUDA_ROTARY_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {

// The sines and cosines of all positions, for heads of `head_width` columns: computed in double,
// once for a shape and base. `table` is aligned to 8 bytes.
cudaError_t FillRotaryTable(cudaStream_t stream, int64_t positions, int64_t head_width, float base,
                            float* table);
size_t RotaryTableBytes(int64_t positions, int64_t head_width);

// As in Backend; arguments are checked there. `table`: filled for the rotation's positions and base
// and the heads' width. `out` may be the input.
cudaError_t Rotate(cudaStream_t stream, const Rotation& rotation, ConstMatrix in,
                   const float* table, float* out);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_ROTARY_H_
