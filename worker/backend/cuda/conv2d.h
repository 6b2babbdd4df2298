#ifndef SANGAM_WORKER_BACKEND_CUDA_CONV2D_H_
#define SANGAM_WORKER_BACKEND_CUDA_CONV2D_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/lane.h"
#include "worker/backend/cuda/products.h"
#include "worker/backend/cuda/scratch.h"

namespace sangam {

// Convolutions of one lane as matrix products: the windows over the images are written out as rows
// of a matrix, so many at a time as a bounded scratch memory holds, and multiplied by the weights.
// Which ones are together depends on shapes alone, and their sums are in their order. Not
// thread-safe.
class CudaConv2d {
 public:
  // Both must outlive it.
  CudaConv2d(CudaLane* lane, CudaProducts* products)
      : lane_(lane), products_(products), rows_(lane) {}

  // As Backend's operations, which check the arguments. REQUIRES: CudaLane::Begin.
  absl::Status Forward(const WindowShape& shape, ConstMatrix in, ConstMatrix weight,
                       Epilogue epilogue, ConstMatrix bias, Matrix out);
  absl::Status BackwardInput(const WindowShape& shape, ConstMatrix weight,
                             ConstMatrix output_gradient, Matrix input_gradient);
  absl::Status BackwardWeight(const WindowShape& shape, ConstMatrix in, ConstMatrix output_gradient,
                              bool accumulate, Matrix weight_gradient);

  // The memory for rows, whose room rehearsals note.
  CudaScratch* rows() { return &rows_; }

 private:
  absl::StatusOr<float*> Rows(int64_t count, int64_t cols);

  CudaLane* lane_;
  CudaProducts* products_;
  CudaScratch rows_;
};

}  // namespace sangam

#endif  // SANGAM_WORKER_BACKEND_CUDA_CONV2D_H_
