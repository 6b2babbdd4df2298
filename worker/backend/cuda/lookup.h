#ifndef SANGAM_WORKER_BACKEND_CUDA_LOOKUP_H_
#define SANGAM_WORKER_BACKEND_CUDA_LOOKUP_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "worker/backend/views.h"

namespace sangam::cuda_kernels {

// What the first call that met tokens outside of its table found. In device memory; all bytes 0:
// nothing was found yet. Later calls leave it alone until it is cleared.
struct BadToken {
  unsigned call = 0;      // number of the call, 0: none
  unsigned backward = 0;  // whether it was LookupBackward
  int64_t table_rows = 0;
  // Index and bits of the value, inverted: the largest one is of the first index, whoever comes
  // first.
  unsigned long long inverted_place = 0;

  int64_t index() const { return static_cast<int64_t>(~inverted_place >> 32); }
  float value() const {
    const auto bits = static_cast<uint32_t>(~inverted_place);
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
};

// As in Backend; shapes are checked there, tokens here. `call`: a number for this call, not 0, that
// no other call has; of calls with one number, as a recording's runs are, the first index is told.
// The row of a bad token is filled with 0.
cudaError_t Lookup(cudaStream_t stream, ConstMatrix tokens, ConstMatrix table, unsigned call,
                   BadToken* bad, float* out);

// Sorts the rows by their tokens, then adds each token's rows in order; rows of bad tokens are left
// out. scratch: as many bytes as the function below says, aligned to 4.
cudaError_t LookupBackward(cudaStream_t stream, ConstMatrix tokens, ConstMatrix output_gradient,
                           unsigned call, BadToken* bad, void* scratch, Matrix table_gradient);
size_t LookupBackwardScratchBytes(int64_t tokens);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_LOOKUP_H_
