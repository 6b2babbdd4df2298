#ifndef SANGAM_WORKER_BACKEND_CPU_ELEMENTWISE_H_
#define SANGAM_WORKER_BACKEND_CPU_ELEMENTWISE_H_

#include <cstdint>

#include "worker/backend/backend.h"
#include "worker/backend/views.h"

// Loops over whole matrices. Arguments are checked by Backend; an output may be one of the inputs.
namespace sangam::cpu_kernels {

// inout[i, j] += bias[j].
void AddBias(const float* bias, Matrix inout);

// inout[i, j] = max(inout[i, j] + bias[j], 0).
void AddBiasRelu(const float* bias, Matrix inout);

// out[j] = sum over i of in[i, j], row after row, starting from out[j] when `accumulate`.
void SumRows(ConstMatrix in, bool accumulate, float* out);

// out[i] = a[i] + b[i] for `size` elements.
void Add(const float* a, const float* b, int64_t size, float* out);

// out[i] = scale * in[i], or +=, for `size` elements.
void AddScaled(float scale, const float* in, int64_t size, bool accumulate, float* out);

// As Backend::CopyColumns.
void CopyColumns(ConstMatrix in, int64_t in_column, int64_t columns, Matrix out,
                 int64_t out_column);

// As Backend::AddRepeated.
void AddRepeated(ConstMatrix in, ConstMatrix addend, float* out);

// As Backend::SumRepeated.
void SumRepeated(ConstMatrix in, bool accumulate, Matrix out);

void Activate(Activation activation, ConstMatrix in, float* out);

void ActivateBackward(Activation activation, const float* kept, ConstMatrix output_gradient,
                      float* input_gradient);

}  // namespace sangam::cpu_kernels

#endif  // SANGAM_WORKER_BACKEND_CPU_ELEMENTWISE_H_
