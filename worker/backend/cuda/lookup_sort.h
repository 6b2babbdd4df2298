#ifndef SANGAM_WORKER_BACKEND_CUDA_LOOKUP_SORT_H_
#define SANGAM_WORKER_BACKEND_CUDA_LOOKUP_SORT_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// Sorts the rows of a batch by their tokens, keeping the order of a token's rows: a radix sort, as
// many passes as tokens have digits.
namespace sangam::cuda_kernels {

struct TokenRow {
  unsigned token;
  unsigned row;
};

// Bytes of scratch memory for `count` rows, aligned to 4.
size_t SortTokensScratchBytes(int64_t count);

// Where in it the rows belong, before they are sorted.
TokenRow* TokensToSort(void* scratch);

// Sorts them; no token is above `largest`. The result is where they are then, in the same memory.
// What goes wrong is left to cudaGetLastError.
const TokenRow* SortTokens(cudaStream_t stream, int64_t count, int64_t largest, void* scratch);

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_LOOKUP_SORT_H_
