#ifndef SANGAM_WORKER_BACKEND_CUDA_ELEMENTWISE_H_
#define SANGAM_WORKER_BACKEND_CUDA_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/backend/views.h"

// Loops over whole matrices, as in cpu/elementwise.h. Arguments are checked by Backend; an output
// may be one of the inputs. Each call queues work on `stream` and gives what the launch gave.
namespace sangam::cuda_kernels {

// out[i] = value.
cudaError_t Fill(cudaStream_t stream, float value, Matrix out);

// out[i] = in[i] for `size` elements.
cudaError_t Copy(cudaStream_t stream, const float* in, int64_t size, float* out);

// inout[i, j] += bias[j].
cudaError_t AddBias(cudaStream_t stream, const float* bias, Matrix inout);

// inout[i, j] = max(inout[i, j] + bias[j], 0). NaN goes through.
cudaError_t AddBiasRelu(cudaStream_t stream, const float* bias, Matrix inout);

// out[i] = a[i] + b[i] for `size` elements.
cudaError_t Add(cudaStream_t stream, const float* a, const float* b, int64_t size, float* out);

// out[i] = scale * in[i], or +=, for `size` elements.
cudaError_t AddScaled(cudaStream_t stream, float scale, const float* in, int64_t size,
                      bool accumulate, float* out);

// As Backend::AddRepeated.
cudaError_t AddRepeated(cudaStream_t stream, ConstMatrix in, ConstMatrix addend, float* out);

// As Backend::CopyColumns.
cudaError_t CopyColumns(cudaStream_t stream, ConstMatrix in, int64_t in_column, int64_t columns,
                        Matrix out, int64_t out_column);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_ELEMENTWISE_H_
