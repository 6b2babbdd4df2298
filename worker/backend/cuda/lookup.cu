#include <cuda_runtime.h>
#include <math.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"
#include "worker/backend/cuda/lookup.h"
#include "worker/backend/cuda/lookup_sort.h"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

// Who looks up what, for the report of a bad token.
struct Call {
  int64_t table_rows;
  unsigned number;
  unsigned backward;
};

// Whether `token` is a row of a table; a double holds every float and number of rows.
__device__ inline bool IsRow(float token, int64_t table_rows) {
  const double number = token;
  return number >= 0 && number < static_cast<double>(table_rows) && number == floor(number);
}

// Takes place in any order of the threads; the first index stays.
__device__ inline void Report(const Call& call, int64_t index, float token, BadToken* bad) {
  const unsigned before = atomicCAS(&bad->call, 0u, call.number);
  if (before != 0 && before != call.number) return;
  // All that come here write the same.
  bad->backward = call.backward;
  bad->table_rows = call.table_rows;
  const auto place = (static_cast<unsigned long long>(index) << 32) | __float_as_uint(token);
  unsigned long long found = 0;
  while (found < ~place) {
    const unsigned long long now = atomicCAS(&bad->inverted_place, found, ~place);
    if (now == found) break;
    found = now;
  }
}

// kLanes neighbours copy a row.
template <int kLanes>
__global__ void __launch_bounds__(kThreads)
    LookupKernel(Call call, const float* __restrict__ tokens, int64_t count,
                 const float* __restrict__ table, int64_t cols, bool vector, BadToken* bad,
                 float* __restrict__ out) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t groups = int64_t{gridDim.x} * (kThreads / kLanes);
  for (int64_t r = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kLanes; r < count;
       r += groups) {
    const float token = tokens[r];
    const bool is_row = IsRow(token, call.table_rows);
    if (!is_row && lane == 0) Report(call, r, token, bad);
    const float* const from = table + (is_row ? static_cast<int64_t>(token) : 0) * cols;
    for (int64_t first = 4 * lane; first < cols; first += 4 * kLanes) {
      Floats<4> x = {{0.0f, 0.0f, 0.0f, 0.0f}};
      if (is_row) x = LoadQuad(from, first, cols, vector);
      StoreQuad(x, out + r * cols, first, cols, vector);
    }
  }
}

// What is sorted: the tokens as numbers of rows, with the rows' numbers. Bad ones come last.
__global__ void __launch_bounds__(kThreads)
    KeysKernel(Call call, const float* __restrict__ tokens, int64_t count, BadToken* bad,
               TokenRow* __restrict__ pairs) {
  const int64_t threads = int64_t{gridDim.x} * kThreads;
  for (int64_t r = int64_t{blockIdx.x} * kThreads + threadIdx.x; r < count; r += threads) {
    const float token = tokens[r];
    const bool is_row = IsRow(token, call.table_rows);
    if (!is_row) Report(call, r, token, bad);
    pairs[r].token = static_cast<unsigned>(is_row ? static_cast<int64_t>(token) : call.table_rows);
    pairs[r].row = static_cast<unsigned>(r);
  }
}

// The block of the first of a token's rows adds them all, each thread at its columns.
__global__ void __launch_bounds__(kThreads)
    AddSegmentsKernel(const TokenRow* __restrict__ pairs, int64_t count, unsigned table_rows,
                      const float* __restrict__ output_gradient, int64_t cols, bool vector,
                      float* __restrict__ table_gradient) {
  constexpr int kRows = 4;
  const int64_t first_pair = blockIdx.x;
  const unsigned token = pairs[first_pair].token;
  if (token >= table_rows) return;
  if (first_pair > 0 && pairs[first_pair - 1].token == token) return;
  float* const to = table_gradient + int64_t{token} * cols;
  for (int64_t first = 4 * int64_t{threadIdx.x}; first < cols; first += 4 * int64_t{blockDim.x}) {
    Floats<4> sum = LoadQuad(to, first, cols, vector);
    // Several rows are on their way at a time; they are added one by one.
    for (int64_t p = first_pair;; p += kRows) {
      Floats<4> x[kRows];
      bool own[kRows];
#pragma unroll
      for (int q = 0; q < kRows; ++q) {
        own[q] = p + q < count && pairs[p + q].token == token;
        if (!own[q]) continue;
        x[q] = LoadQuad(output_gradient + int64_t{pairs[p + q].row} * cols, first, cols, vector);
      }
#pragma unroll
      for (int q = 0; q < kRows; ++q) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sum.v[k] = own[q] ? sum.v[k] + x[q].v[k] : sum.v[k];
      }
      if (!own[kRows - 1]) break;
    }
    StoreQuad(sum, to, first, cols, vector);
  }
}

template <int kLanes>
void LaunchLookup(cudaStream_t stream, const Call& call, ConstMatrix tokens, ConstMatrix table,
                  bool vector, BadToken* bad, float* out) {
  SANGAM_LAUNCH(LookupKernel<kLanes>, GridBlocks(tokens.size(), kThreads / kLanes), kThreads, 0,
                stream, call, tokens.data, tokens.size(), table.data, table.cols, vector, bad, out);
}

}  // namespace

cudaError_t Lookup(cudaStream_t stream, ConstMatrix tokens, ConstMatrix table, unsigned call,
                   BadToken* bad, float* out) {
  const bool vector = Aligned16(table.data, out) && table.cols % 4 == 0;
  const Call this_call = {table.rows, call, 0};
  if (table.cols <= 32) {
    LaunchLookup<8>(stream, this_call, tokens, table, vector, bad, out);
  } else {
    LaunchLookup<32>(stream, this_call, tokens, table, vector, bad, out);
  }
  return cudaGetLastError();
}

size_t LookupBackwardScratchBytes(int64_t tokens) { return SortTokensScratchBytes(tokens); }

cudaError_t LookupBackward(cudaStream_t stream, ConstMatrix tokens, ConstMatrix output_gradient,
                           unsigned call, BadToken* bad, void* scratch, Matrix table_gradient) {
  const int64_t count = tokens.size();
  const int64_t cols = table_gradient.cols;
  const Call this_call = {table_gradient.rows, call, 1};
  SANGAM_LAUNCH(KeysKernel, GridBlocks(count, kThreads), kThreads, 0, stream, this_call,
                tokens.data, count, bad, TokensToSort(scratch));
  const TokenRow* const sorted = SortTokens(stream, count, table_gradient.rows, scratch);
  const bool vector = Aligned16(output_gradient.data, table_gradient.data) && cols % 4 == 0;
  const auto threads =
      static_cast<unsigned>(std::min<int64_t>(CeilDivide(cols, 4 * 32) * 32, kThreads));
  SANGAM_LAUNCH(AddSegmentsKernel, static_cast<unsigned>(count), threads, 0, stream, sorted, count,
                static_cast<unsigned>(table_gradient.rows), output_gradient.data, cols, vector,
                table_gradient.data);
  return cudaGetLastError();
}

}  // namespace sangam::cuda_kernels
