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
