#include <cuda_runtime.h>
#include <math.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/attention.h"
#include "worker/backend/cuda/attention_tiles.cuh"
#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"
#include "worker/backend/cuda/reduce.cuh"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/precision.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace attention {
namespace {

// What both kernels read.
struct Gradients {
  const float* qkv;
  const float* log_sum;
  const float* output_gradient;
  const float* common;  // [rows, heads], the output times its gradient
  float* qkv_gradient;
};

// common[r, h] = out . output_gradient over a head's columns: one warp each.
__global__ void __launch_bounds__(kThreads)
    CommonKernel(int64_t items, int width, const float* __restrict__ out,
                 const float* __restrict__ output_gradient, float* __restrict__ common) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t warps = int64_t{gridDim.x} * (kThreads / kWarp);
  for (int64_t item = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp; item < items;
       item += warps) {
    const int64_t first = item * width;
    float sum = 0.0f;
    for (int j = lane; j < width; j += kWarp) {
      sum = fmaf(out[first + j], output_gradient[first + j], sum);
    }
    sum = WarpSum(sum);
    if (lane == 0) common[item] = sum;
  }
}

// Where a block's head lies.
struct Head {
  Factors queries, keys, values, gradients;
  int64_t first_sum;  // of log_sum and common
  float* query_gradient;
};

__device__ inline Head HeadOf(const Sizes& sizes, const Gradients& all, const Work& work) {
  const int64_t stride_out = sizes.stride / 3;
  const int64_t head_column = int64_t{work.head} * sizes.width;
  const int64_t first = work.first_position * sizes.stride + head_column;
  Head head;
  head.queries = sizes.Of(all.qkv + first, sizes.stride);
  head.keys = sizes.Of(all.qkv + first + stride_out, sizes.stride);
  head.values = sizes.Of(all.qkv + first + 2 * stride_out, sizes.stride);
  head.gradients =
      sizes.Of(all.output_gradient + work.first_position * stride_out + head_column, stride_out);
  head.first_sum = work.first_position * sizes.heads + work.head;
  head.query_gradient = all.qkv_gradient + first;
  return head;
}

// log_sum and common of four neighbouring queries.
struct QuerySums {
  float log_sum[kPart], common[kPart];
};

__device__ inline QuerySums LoadQuerySums(const Sizes& sizes, const Gradients& all,
                                          const Head& head, int first_query) {
  QuerySums sums;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int query = first_query + i;
    const int64_t at = head.first_sum + int64_t{query} * sizes.heads;
    sums.log_sum[i] = query < sizes.positions ? all.log_sum[at] : 0.0f;
    sums.common[i] = query < sizes.positions ? all.common[at] : 0.0f;
  }
  return sums;
}

// A score and an output gradient times a value become the weight and the score's gradient.
__device__ inline void MakeWeight(float scale, float log_sum, float common, bool meet,
                                  float* score_to_weight, float* product_to_gradient) {
  const float weight = expf(fmaf(*score_to_weight, scale, -log_sum));
  const float gradient = (weight * (*product_to_gradient - common)) * scale;
  *score_to_weight = meet ? weight : 0.0f;
  *product_to_gradient = meet ? gradient : 0.0f;
}

// The gradient of a tile of queries.
template <int kColumns>
__global__ void __launch_bounds__(kBlock, kColumns <= 128 ? kBusyBlocks : 1)
    QueriesKernel(Sizes sizes, Gradients all) {
  SANGAM_ATTENTION_SHARED(shared);
  const int column_blocks = (sizes.width + kColumns - 1) / kColumns;
  const Work work = WorkOfBlock(sizes.sequences, sizes.heads, column_blocks, sizes.positions);
  const int tiles = (sizes.positions + kTile - 1) / kTile;
  const int first_query = (tiles - 1 - work.tile) * kTile;
  const int column = work.column_block * kColumns;
  const Head head = HeadOf(sizes, all, work);
  const QuerySums query = LoadQuerySums(sizes, all, head, first_query + kPart * ThreadY());

  Sums<kColumns> sums;
  sums.Clear();
  for (int first_key = 0; first_key <= first_query; first_key += kTile) {
    const bool diagonal = first_key == first_query;
    float weights[kPart][kPart], gradients[kPart][kPart];
    Multiply(head.queries, first_query, head.keys, first_key, shared, weights);
    Multiply(head.gradients, first_query, head.values, first_key, shared, gradients);
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
#pragma unroll
      for (int j = 0; j < kPart; ++j) {
        const bool meet =
            !diagonal || Meet<RowsAre::kQueries>(kPart * ThreadY() + i, kPart * ThreadX() + j);
        MakeWeight(sizes.scale, query.log_sum[i], query.common[i], meet, &weights[i][j],
                   &gradients[i][j]);
      }
    }
    KeepWeights(gradients, sizes.rounds, shared);
    AddProducts<kColumns, RowsAre::kQueries>(head.keys, first_key, column, diagonal, shared, &sums);
  }
  const float ones[kPart] = {1.0f, 1.0f, 1.0f, 1.0f};
  StoreSums(sums, ones, first_query, sizes.positions, sizes.width, column, sizes.stride,
            sizes.vector, head.query_gradient);
}

// The gradients of a tile of keys and of their values.
template <int kColumns>
__global__ void __launch_bounds__(kBlock, kColumns <= 64 ? kBusyBlocks : 1)
    KeysKernel(Sizes sizes, Gradients all) {
  SANGAM_ATTENTION_SHARED(shared);
  const int column_blocks = (sizes.width + kColumns - 1) / kColumns;
  const Work work = WorkOfBlock(sizes.sequences, sizes.heads, column_blocks, sizes.positions);
  const int first_key = work.tile * kTile;
  const int column = work.column_block * kColumns;
  const Head head = HeadOf(sizes, all, work);

  Sums<kColumns> key_sums, value_sums;
  key_sums.Clear();
  value_sums.Clear();
  for (int first_query = first_key; first_query < sizes.positions; first_query += kTile) {
    const bool diagonal = first_query == first_key;
    const int own_query = first_query + kPart * ThreadX();
    const QuerySums query = LoadQuerySums(sizes, all, head, own_query);
    float weights[kPart][kPart], gradients[kPart][kPart];
    Multiply(head.keys, first_key, head.queries, first_query, shared, weights);
    Multiply(head.values, first_key, head.gradients, first_query, shared, gradients);
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
#pragma unroll
      for (int j = 0; j < kPart; ++j) {
        const bool meet =
            own_query + j < sizes.positions &&
            (!diagonal || Meet<RowsAre::kKeys>(kPart * ThreadY() + i, kPart * ThreadX() + j));
        MakeWeight(sizes.scale, query.log_sum[j], query.common[j], meet, &weights[i][j],
                   &gradients[i][j]);
      }
    }
    KeepWeights(weights, sizes.rounds, shared);
    AddProducts<kColumns, RowsAre::kKeys>(head.gradients, first_query, column, diagonal, shared,
                                          &value_sums);
    __syncthreads();  // the weights are read
    KeepWeights(gradients, sizes.rounds, shared);
    AddProducts<kColumns, RowsAre::kKeys>(head.queries, first_query, column, diagonal, shared,
                                          &key_sums);
  }
  const float ones[kPart] = {1.0f, 1.0f, 1.0f, 1.0f};
  float* const key_gradient = head.query_gradient + sizes.stride / 3;
  StoreSums(key_sums, ones, first_key, sizes.positions, sizes.width, column, sizes.stride,
            sizes.vector, key_gradient);
  StoreSums(value_sums, ones, first_key, sizes.positions, sizes.width, column, sizes.stride,
            sizes.vector, key_gradient + sizes.stride / 3);
}

template <int kColumns>
void LaunchQueries(cudaStream_t stream, const Sizes& sizes, const Gradients& all) {
  SANGAM_LAUNCH(QueriesKernel<kColumns>, sizes.blocks(kColumns), kBlock, 0, stream, sizes, all);
}

// It has two sums for each row: half the columns of a block.
template <int kColumns>
void LaunchKeys(cudaStream_t stream, const Sizes& sizes, const Gradients& all) {
  SANGAM_LAUNCH(KeysKernel<kColumns>, sizes.blocks(kColumns), kBlock, 0, stream, sizes, all);
}

}  // namespace
}  // namespace attention

size_t CausalAttentionBackwardScratchBytes(const AttentionShape& shape, int64_t rows) {
  return static_cast<size_t>(rows * shape.heads) * sizeof(float);
}

cudaError_t CausalAttentionBackward(cudaStream_t stream, const AttentionShape& shape,
                                    Precision precision, ConstMatrix qkv, const float* out,
                                    const float* log_sum, const float* output_gradient,
                                    void* scratch, float* qkv_gradient) {
  const attention::Sizes sizes =
      attention::SizesOf(shape, precision, qkv, Aligned16(qkv.data, output_gradient, qkv_gradient));
  auto* const common = static_cast<float*>(scratch);
  const int64_t items = qkv.rows * shape.heads;
  SANGAM_LAUNCH(attention::CommonKernel, GridBlocks(items, kThreads / kWarp), kThreads, 0, stream,
                items, sizes.width, out, output_gradient, common);
  const attention::Gradients all = {qkv.data, log_sum, output_gradient, common, qkv_gradient};
  if (sizes.width <= 32) {
    attention::LaunchQueries<32>(stream, sizes, all);
    attention::LaunchKeys<32>(stream, sizes, all);
  } else if (sizes.width <= 64) {
    attention::LaunchQueries<64>(stream, sizes, all);
    attention::LaunchKeys<64>(stream, sizes, all);
  } else if (sizes.width <= 128) {
    attention::LaunchQueries<128>(stream, sizes, all);
    attention::LaunchKeys<128>(stream, sizes, all);
  } else {
    attention::LaunchQueries<256>(stream, sizes, all);
    attention::LaunchKeys<128>(stream, sizes, all);
  }
  return cudaGetLastError();
}

}  // namespace sangam::cuda_kernels
