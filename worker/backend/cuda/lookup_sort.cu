#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"
#include "worker/backend/cuda/lookup_sort.h"
#include "worker/backend/cuda/reduce.cuh"

namespace sangam::cuda_kernels {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kWarps = kThreads / kWarp;
// Rows that a block moves in one pass, kThreads at a time.
constexpr int64_t kBlockRows = 8 * kThreads;
constexpr int kScanThreads = 1024;

static_assert(kDigits == kThreads, "a thread for each digit");

int64_t SortBlocks(int64_t count) { return CeilDivide(count, kBlockRows); }

__device__ inline int DigitOf(const TokenRow& pair, int shift) {
  return static_cast<int>((pair.token >> shift) & (kDigits - 1));
}

// counts[digit, block] = how many of the block's rows have the digit.
__global__ void __launch_bounds__(kThreads)
    CountKernel(const TokenRow* __restrict__ in, int64_t count, int shift,
                unsigned* __restrict__ counts) {
  __shared__ unsigned of_digit[kDigits];
  of_digit[threadIdx.x] = 0;
  __syncthreads();
  const int64_t first = blockIdx.x * kBlockRows;
  for (int64_t i = first + threadIdx.x; i < first + kBlockRows && i < count; i += kThreads) {
    atomicAdd(&of_digit[DigitOf(in[i], shift)], 1u);
  }
  __syncthreads();
  counts[int64_t{threadIdx.x} * gridDim.x + blockIdx.x] = of_digit[threadIdx.x];
}

// Each count becomes the sum of those in front of it. One block; each thread has a stretch.
__global__ void __launch_bounds__(kScanThreads)
    ScanKernel(unsigned* __restrict__ counts, int64_t size) {
  __shared__ unsigned stretches[kScanThreads];
  const int64_t length = (size + kScanThreads - 1) / kScanThreads;
  const int64_t begin = min(threadIdx.x * length, size);
  const int64_t end = min(begin + length, size);
  unsigned sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += counts[i];
  stretches[threadIdx.x] = sum;
  for (unsigned distance = 1; distance < kScanThreads; distance *= 2) {
    __syncthreads();
    const unsigned before = threadIdx.x >= distance ? stretches[threadIdx.x - distance] : 0;
    __syncthreads();
    stretches[threadIdx.x] += before;
  }
  unsigned next = stretches[threadIdx.x] - sum;
  for (int64_t i = begin; i < end; ++i) {
    const unsigned here = counts[i];
    counts[i] = next;
    next += here;
  }
}

// Lanes of the warp that have the same digit.
__device__ inline unsigned SameDigit(int digit, bool is_row) {
  unsigned same = __ballot_sync(0xFFFFFFFFu, is_row);
#pragma unroll
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const unsigned set = __ballot_sync(0xFFFFFFFFu, (digit >> bit) & 1);
    same &= ((digit >> bit) & 1) != 0 ? set : ~set;
  }
  return same;
}

// Moves the block's rows behind those of smaller digits and of earlier blocks, in their order.
__global__ void __launch_bounds__(kThreads)
    MoveKernel(const TokenRow* __restrict__ in, int64_t count, int shift,
               const unsigned* __restrict__ counts, TokenRow* __restrict__ out) {
  __shared__ unsigned places[kWarps][kDigits];  // of each warp's first row with a digit
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const unsigned before_lane = (1u << lane) - 1;
  unsigned next = counts[int64_t{threadIdx.x} * gridDim.x + blockIdx.x];  // of the thread's digit
  const int64_t end = min((int64_t{blockIdx.x} + 1) * kBlockRows, count);
  for (int64_t first = blockIdx.x * kBlockRows; first < end; first += kThreads) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) places[w][threadIdx.x] = 0;
    __syncthreads();
    const int64_t at = first + threadIdx.x;
    const bool is_row = at < end;
    TokenRow pair = {0, 0};
    if (is_row) pair = in[at];
    const int digit = DigitOf(pair, shift);
    const unsigned same = SameDigit(digit, is_row);
    const auto rank = static_cast<unsigned>(__popc(same & before_lane));
    if (is_row && rank == 0) places[warp][digit] = static_cast<unsigned>(__popc(same));
    __syncthreads();
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const unsigned rows = places[w][threadIdx.x];
      places[w][threadIdx.x] = next;
      next += rows;
    }
    __syncthreads();
    if (is_row) out[places[warp][digit] + rank] = pair;
    __syncthreads();
  }
}

}  // namespace

size_t SortTokensScratchBytes(int64_t count) {
  return static_cast<size_t>(2 * count) * sizeof(TokenRow) +
         static_cast<size_t>(SortBlocks(count) * kDigits) * sizeof(unsigned);
}

TokenRow* TokensToSort(void* scratch) { return static_cast<TokenRow*>(scratch); }

const TokenRow* SortTokens(cudaStream_t stream, int64_t count, int64_t largest, void* scratch) {
  TokenRow* from = TokensToSort(scratch);
  TokenRow* to = from + count;
  auto* const counts = reinterpret_cast<unsigned*>(to + count);
  const auto blocks = static_cast<unsigned>(SortBlocks(count));
  for (int shift = 0; shift == 0 || (shift < 32 && (largest >> shift) != 0); shift += kDigitBits) {
    SANGAM_LAUNCH(CountKernel, blocks, kThreads, 0, stream, from, count, shift, counts);
    SANGAM_LAUNCH(ScanKernel, 1, kScanThreads, 0, stream, counts, int64_t{blocks} * kDigits);
    SANGAM_LAUNCH(MoveKernel, blocks, kThreads, 0, stream, from, count, shift, counts, to);
    TokenRow* const sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

}  // namespace sangam::cuda_kernels
