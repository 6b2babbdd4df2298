#include "worker/backend/cpu/elementwise.h"

#include <algorithm>
#include <cstdint>

#include "worker/backend/backend.h"
#include "worker/backend/cpu/functions.h"
#include "worker/backend/cpu/kernel.h"
#include "worker/backend/views.h"

namespace sangam::cpu_kernels {
namespace {

// A NaN stays one, so that a broken step is seen.
inline float Relu(float x) { return x < 0 ? 0.0f : x; }

}  // namespace

SANGAM_CPU_KERNEL
void AddBias(const float* bias, Matrix inout) {
  for (int64_t i = 0; i < inout.rows; ++i) {
    float* row = inout.data + i * inout.cols;
    for (int64_t j = 0; j < inout.cols; ++j) row[j] += bias[j];
  }
}

SANGAM_CPU_KERNEL
void AddBiasRelu(const float* bias, Matrix inout) {
  for (int64_t i = 0; i < inout.rows; ++i) {
    float* row = inout.data + i * inout.cols;
    for (int64_t j = 0; j < inout.cols; ++j) row[j] = Relu(row[j] + bias[j]);
  }
}

SANGAM_CPU_KERNEL
void SumRows(ConstMatrix in, bool accumulate, float* out) {
  if (!accumulate) std::fill_n(out, in.cols, 0.0f);
  int64_t i = 0;
  // Four rows per visit of `out`; each sum still takes them one after the other.
  for (; i + 4 <= in.rows; i += 4) {
    const float* row = in.data + i * in.cols;
    for (int64_t j = 0; j < in.cols; ++j) {
      out[j] =
          (((out[j] + row[j]) + row[in.cols + j]) + row[2 * in.cols + j]) + row[3 * in.cols + j];
    }
  }
  for (; i < in.rows; ++i) {
    const float* row = in.data + i * in.cols;
    for (int64_t j = 0; j < in.cols; ++j) out[j] += row[j];
  }
}

SANGAM_CPU_KERNEL
void Add(const float* a, const float* b, int64_t size, float* out) {
  for (int64_t i = 0; i < size; ++i) out[i] = a[i] + b[i];
}

SANGAM_CPU_KERNEL
void AddScaled(float scale, const float* in, int64_t size, bool accumulate, float* out) {
  if (accumulate) {
    for (int64_t i = 0; i < size; ++i) out[i] += scale * in[i];
  } else {
    for (int64_t i = 0; i < size; ++i) out[i] = scale * in[i];
  }
}

void CopyColumns(ConstMatrix in, int64_t in_column, int64_t columns, Matrix out,
                 int64_t out_column) {
  for (int64_t r = 0; r < in.rows; ++r) {
    std::copy_n(in.data + r * in.cols + in_column, columns, out.data + r * out.cols + out_column);
  }
}

void AddRepeated(ConstMatrix in, ConstMatrix addend, float* out) {
  const int64_t size = addend.size();
  for (int64_t first = 0; first < in.size(); first += size) {
    Add(in.data + first, addend.data, size, out + first);
  }
}

void SumRepeated(ConstMatrix in, bool accumulate, Matrix out) {
  // The rows that belong together are the columns of a matrix with longer rows.
  SumRows({in.data, in.rows / out.rows, out.size()}, accumulate, out.data);
}

SANGAM_CPU_KERNEL
void Activate(Activation activation, ConstMatrix in, float* out) {
  const float* x = in.data;
  const int64_t size = in.size();
  switch (activation) {
    case Activation::kRelu:
      for (int64_t i = 0; i < size; ++i) out[i] = Relu(x[i]);
      return;
    case Activation::kGelu:
      for (int64_t i = 0; i < size; ++i) out[i] = cpu_functions::Gelu(x[i]);
      return;
    case Activation::kTanh:
      for (int64_t i = 0; i < size; ++i) out[i] = cpu_functions::Tanh(x[i]);
      return;
    case Activation::kSigmoid:
      for (int64_t i = 0; i < size; ++i) out[i] = cpu_functions::Sigmoid(x[i]);
      return;
  }
}

SANGAM_CPU_KERNEL
void ActivateBackward(Activation activation, const float* kept, ConstMatrix output_gradient,
                      float* input_gradient) {
  const float* dy = output_gradient.data;
  const int64_t size = output_gradient.size();
  switch (activation) {
    case Activation::kRelu:
      for (int64_t i = 0; i < size; ++i) input_gradient[i] = kept[i] <= 0 ? 0.0f : dy[i];
      return;
    case Activation::kGelu:
      for (int64_t i = 0; i < size; ++i) {
        input_gradient[i] = dy[i] * cpu_functions::GeluDerivative(kept[i]);
      }
      return;
    case Activation::kTanh:
      for (int64_t i = 0; i < size; ++i) {
        input_gradient[i] = dy[i] * (1.0f - kept[i] * kept[i]);
      }
      return;
    case Activation::kSigmoid:
      for (int64_t i = 0; i < size; ++i) {
        input_gradient[i] = dy[i] * (kept[i] * (1.0f - kept[i]));
      }
      return;
  }
}

}  // namespace sangam::cpu_kernels
