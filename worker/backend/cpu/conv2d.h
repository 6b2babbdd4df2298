#ifndef SANGAM_WORKER_BACKEND_CPU_CONV2D_H_
#define SANGAM_WORKER_BACKEND_CPU_CONV2D_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/buffer.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/gemm.h"
#include "worker/backend/views.h"

namespace sangam {

// Convolutions of one lane as matrix products: the windows over the images are written out as rows
// of a matrix, some at a time so that they stay in the second-level cache, and multiplied by the
// weights. Not thread-safe.
//
// GFLOP/s forward, input and weight gradient on AVX2 (one thread, 3 x 3 windows, 32 images), beside
// oneDNN's convolution of the same layout, with its reorders of the weights:
//   28 x 28 x 1 -> 32    32  26  28    60   8  41
//   14 x 14 x 32 -> 64   88  87  85    89 100  66
//   32 x 32 x 16 -> 16   67  60  68    74  89  72
//   16 x 16 x 32 -> 32   79  77  78    88  98  67
//   8 x 8 x 64 -> 64     88  86  86    84  99  68
// A step of the wide layers takes the same time with both, and this way has one kind of product
// under everything, no primitives to keep, sums that go on where they were, and bfloat16.
//
// A tile is a run of result pixels, which may begin in one image and end in another; where it does
// depends on shapes alone.
class CpuConv2d {
 public:
  // As Backend's operations, which check the arguments; the epilogue is left to the caller.
  absl::Status Forward(CpuGemm* gemm, const WindowShape& shape, ConstMatrix in, ConstMatrix weight,
                       Matrix out);
  absl::Status BackwardInput(CpuGemm* gemm, const WindowShape& shape, ConstMatrix weight,
                             ConstMatrix output_gradient, Matrix input_gradient);
  absl::Status BackwardWeight(CpuGemm* gemm, const WindowShape& shape, ConstMatrix in,
                              ConstMatrix output_gradient, bool accumulate, Matrix weight_gradient);

 private:
  absl::Status Reserve(int64_t size);

  FloatBuffer scratch_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CPU_CONV2D_H_
