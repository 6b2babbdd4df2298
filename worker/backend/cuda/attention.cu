#include <cuda_runtime.h>
#include <math.h>

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/attention.h"
#include "worker/backend/cuda/attention_tiles.cuh"
#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/precision.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace attention {
namespace {

// The softmax of a thread's rows as far as keys were seen. The threads of a row have the same.
struct Running {
  float largest[kPart];
  float sum[kPart];  // of exp(score - largest)
};

// Goes on with a tile's scores, which become exp(score - largest); corrections: what earlier
// exponentials are to be multiplied by. A NaN is passed over by `largest`; the sum shows it.
__device__ inline void GoOn(bool diagonal, float scale, float (&scores)[kPart][kPart],
                            Running* running, float (&corrections)[kPart]) {
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int row = kPart * ThreadY() + i;
    float largest = -INFINITY;
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      const bool meet = !diagonal || Meet<RowsAre::kQueries>(row, kPart * ThreadX() + j);
      scores[i][j] = meet ? scores[i][j] * scale : -INFINITY;
      largest = fmaxf(largest, scores[i][j]);
    }
#pragma unroll
    for (int distance = kSide / 2; distance > 0; distance /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, distance, kSide));
    }
    largest = fmaxf(largest, running->largest[i]);
    // -inf - -inf would be no number.
    const float base = largest == -INFINITY ? 0.0f : largest;
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      scores[i][j] = expf(scores[i][j] - base);
      sum += scores[i][j];
    }
#pragma unroll
    for (int distance = kSide / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance, kSide);
    }
    corrections[i] = expf(running->largest[i] - base);
    running->largest[i] = largest;
    running->sum[i] = fmaf(running->sum[i], corrections[i], sum);
  }
}

template <int kColumns>
__global__ void __launch_bounds__(kBlock, kColumns <= 128 ? kBusyBlocks : 1)
    ForwardKernel(Sizes sizes, const float* __restrict__ qkv, float* __restrict__ out,
                  float* __restrict__ log_sum) {
  SANGAM_ATTENTION_SHARED(shared);
  const int column_blocks = (sizes.width + kColumns - 1) / kColumns;
  const Work work = WorkOfBlock(sizes.sequences, sizes.heads, column_blocks, sizes.positions);
  const int tiles = (sizes.positions + kTile - 1) / kTile;
  const int first_query = (tiles - 1 - work.tile) * kTile;
  const int column = work.column_block * kColumns;
  const int64_t stride_out = sizes.stride / 3;
  const int64_t head_column = int64_t{work.head} * sizes.width;
  const float* const head = qkv + work.first_position * sizes.stride + head_column;
  const Factors queries = sizes.Of(head, sizes.stride);
  const Factors keys = sizes.Of(head + stride_out, sizes.stride);
  const Factors values = sizes.Of(head + 2 * stride_out, sizes.stride);

  Running running;
  Sums<kColumns> sums;
  sums.Clear();
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    running.largest[i] = -INFINITY;
    running.sum[i] = 0.0f;
  }
  for (int first_key = 0; first_key <= first_query; first_key += kTile) {
    const bool diagonal = first_key == first_query;
    float scores[kPart][kPart];
    Multiply(queries, first_query, keys, first_key, shared, scores);
    float corrections[kPart];
    GoOn(diagonal, sizes.scale, scores, &running, corrections);
    KeepWeights(scores, sizes.rounds, shared);
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
#pragma unroll
      for (int c = 0; c < Sums<kColumns>::kCount; ++c) sums.v[i][c] *= corrections[i];
    }
    AddProducts<kColumns, RowsAre::kQueries>(values, first_key, column, diagonal, shared, &sums);
  }

  float inverse_sums[kPart];
#pragma unroll
  for (int i = 0; i < kPart; ++i) inverse_sums[i] = 1.0f / running.sum[i];
  StoreSums(sums, inverse_sums, first_query, sizes.positions, sizes.width, column, stride_out,
            sizes.vector, out + work.first_position * stride_out + head_column);
  if (column != 0 || ThreadX() != 0) return;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int position = first_query + kPart * ThreadY() + i;
    if (position >= sizes.positions) continue;
    log_sum[(work.first_position + position) * sizes.heads + work.head] =
        static_cast<float>(double{running.largest[i]} + log(double{running.sum[i]}));
  }
}

template <int kColumns>
cudaError_t Launch(cudaStream_t stream, const Sizes& sizes, const float* qkv, float* out,
                   float* log_sum) {
  SANGAM_LAUNCH(ForwardKernel<kColumns>, sizes.blocks(kColumns), kBlock, 0, stream, sizes, qkv, out,
                log_sum);
  return cudaGetLastError();
}

}  // namespace
}  // namespace attention

cudaError_t CausalAttention(cudaStream_t stream, const AttentionShape& shape, Precision precision,
                            ConstMatrix qkv, float* out, float* log_sum) {
  const attention::Sizes sizes =
      attention::SizesOf(shape, precision, qkv, Aligned16(qkv.data, out));
  if (sizes.width <= 32) return attention::Launch<32>(stream, sizes, qkv.data, out, log_sum);
  if (sizes.width <= 64) return attention::Launch<64>(stream, sizes, qkv.data, out, log_sum);
  if (sizes.width <= 128) return attention::Launch<128>(stream, sizes, qkv.data, out, log_sum);
  return attention::Launch<256>(stream, sizes, qkv.data, out, log_sum);
}

}  // namespace sangam::cuda_kernels
