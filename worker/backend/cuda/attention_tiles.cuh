#ifndef SANGAM_WORKER_BACKEND_CUDA_ATTENTION_TILES_CUH_
#define SANGAM_WORKER_BACKEND_CUDA_ATTENTION_TILES_CUH_

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "worker/backend/cuda/bf16_bits.cuh"
#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/precision.h"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

// The parts of attention's kernels. A block computes for a tile of rows (queries, or keys and
// values in the way back) and goes over tiles of others: the keys that the queries see, or the
// queries that see the keys. It is a square of 16 x 16 threads; thread (x, y) has the products of
// rows 4 y to 4 y + 3 with others 4 x to 4 x + 3, and sums of the same rows at 4 columns in
// each 64.
namespace sangam::cuda_kernels::attention {

constexpr int kTile = 64;   // rows, and others
constexpr int kDepth = 32;  // columns of rows and others that are in shared memory at a time
constexpr int kSide = 16;   // of the square of threads
constexpr int kPart = 4;    // rows, or others, of a thread
constexpr int kBlock = kSide * kSide;
constexpr int kChunk = kDepth * kTile;

// Blocks that a multiprocessor should have room for, so that one computes while another loads. It
// bounds registers; only sums of very many columns do without.
constexpr int kBusyBlocks = 2;

static_assert(kTile == kSide * kPart && kBlock == kThreads);

// What a block keeps in shared memory, in floats; `weights` is a tile by a tile.
struct Shared {
  float* chunks;  // 2 * kChunk
  float* weights;
};

#define SANGAM_ATTENTION_SHARED(name)                                                        \
  __shared__ __align__(16) float name##_chunks[2 * sangam::cuda_kernels::attention::kChunk]; \
  __shared__ __align__(16) float name##_weights[sangam::cuda_kernels::attention::kTile *     \
                                                sangam::cuda_kernels::attention::kTile];     \
  const sangam::cuda_kernels::attention::Shared name = {name##_chunks, name##_weights}

// Rows of a sequence and head, one for each position.
struct Factors {
  const float* data;
  int64_t stride;  // floats from one position to the next
  int positions;
  int width;
  bool vector;  // rows are multiples of 16 bytes, in address and width
  bool rounds;  // to bfloat16, as they are loaded
};

__device__ inline int ThreadX() { return static_cast<int>(threadIdx.x) % kSide; }
__device__ inline int ThreadY() { return static_cast<int>(threadIdx.x) / kSide; }

// Four numbers of a position; 0 beyond the last column or position.
__device__ inline Floats<4> LoadFour(const Factors& from, int position, int column) {
  if (position >= from.positions || column >= from.width) return {{0.0f, 0.0f, 0.0f, 0.0f}};
  Floats<4> x = LoadQuad(from.data + position * from.stride, column, from.width, from.vector);
  if (from.rounds) {
#pragma unroll
    for (int k = 0; k < 4; ++k) x.v[k] = RoundedToBf16(x.v[k]);
  }
  return x;
}

// Where four neighbours 4 * four to 4 * four + 3 of row `row` lie in an array of kTile columns. The
// places within a row are mixed up by its number, so that a warp that goes along a row, and one
// that goes down the rows by fours, meet every bank of shared memory.
__device__ inline int PlaceOfFour(int row, int four) {
  return row * kTile + ((four ^ ((row >> 2) & 7)) << 2);
}

// chunk: [kDepth, kTile], the columns [column, column + kDepth) of the positions from `first` on.
__device__ inline void LoadColumns(const Factors& from, int first, int column, float* chunk) {
#pragma unroll
  for (int item = 0; item < kTile * kDepth / 4; item += kBlock) {
    const int at = item + static_cast<int>(threadIdx.x);
    const int four = at % (kDepth / 4);
    const int row = at / (kDepth / 4);
    const Floats<4> x = LoadFour(from, first + row, column + 4 * four);
#pragma unroll
    for (int k = 0; k < 4; ++k) chunk[PlaceOfFour(4 * four + k, row / 4) + row % 4] = x.v[k];
  }
}

// products[i][j] = row i . other j, of the thread's; summed column after column.
__device__ inline void Multiply(const Factors& rows, int first_row, const Factors& others,
                                int first_other, const Shared& shared,
                                float (&products)[kPart][kPart]) {
  float* const row_chunk = shared.chunks;
  float* const other_chunk = shared.chunks + kChunk;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
#pragma unroll
    for (int j = 0; j < kPart; ++j) products[i][j] = 0.0f;
  }
  for (int column = 0; column < rows.width; column += kDepth) {
    __syncthreads();
    LoadColumns(rows, first_row, column, row_chunk);
    LoadColumns(others, first_other, column, other_chunk);
    __syncthreads();
    const int fours = min(kDepth / 4, (rows.width - column + 3) / 4);
#pragma unroll 1
    for (int four = 0; four < fours; ++four) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const Floats<4> x = Load<4>(row_chunk + PlaceOfFour(4 * four + k, ThreadY()));
        const Floats<4> y = Load<4>(other_chunk + PlaceOfFour(4 * four + k, ThreadX()));
#pragma unroll
        for (int i = 0; i < kPart; ++i) {
#pragma unroll
          for (int j = 0; j < kPart; ++j) products[i][j] += x.v[i] * y.v[j];
        }
      }
    }
  }
}

// Leaves the thread's values for AddProducts, others first, rounded if asked.
__device__ inline void KeepWeights(const float (&values)[kPart][kPart], bool rounds,
                                   const Shared& shared) {
#pragma unroll
  for (int j = 0; j < kPart; ++j) {
    Floats<4> x;
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      x.v[i] = rounds ? RoundedToBf16(values[i][j]) : values[i][j];
    }
    Store(x, shared.weights + PlaceOfFour(kPart * ThreadX() + j, ThreadY()));
  }
}

// Whether a row of a tile meets another of the same tile: keys from the first to a query's own.
enum class RowsAre { kQueries, kKeys };

template <RowsAre kRows>
__device__ inline bool Meet(int row, int other) {
  return kRows == RowsAre::kQueries ? other <= row : other >= row;
}

// Sums of kColumns columns: those of one thread.
template <int kColumns>
struct Sums {
  static constexpr int kCount = kColumns / kSide;
  // Accesses of shared memory that a thread's columns take.
  static constexpr int kWide = kCount < 4 ? kCount : 4;
  float v[kPart][kCount];

  __device__ void Clear() {
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
#pragma unroll
      for (int c = 0; c < kCount; ++c) v[i][c] = 0.0f;
    }
  }
  // The column of v[.][c].
  __device__ static int Column(int c) {
    return c / kWide * (kWide * kSide) + ThreadX() * kWide + c % kWide;
  }
};

// sums[i] += sum over the others o of the tile, in order, of weights[o, i] others[o, columns from
// `column` on]. kDiagonal: only over those that meet the row, so that nothing of others reaches it,
// not even as NaN times 0.
template <int kColumns, RowsAre kRows, bool kDiagonal>
__device__ inline void AddProductsOf(const Factors& others, int first_other, int column,
                                     const Shared& shared, Sums<kColumns>* sums) {
  constexpr int kFours = kColumns / 4;
  constexpr int kOthers = 2 * kChunk / kColumns < kTile ? 2 * kChunk / kColumns : kTile;
  using Part = Sums<kColumns>;
  for (int part = 0; part < kTile; part += kOthers) {
    if (first_other + part >= others.positions) break;
    __syncthreads();
#pragma unroll
    for (int item = 0; item < kOthers * kFours; item += kBlock) {
      const int at = item + static_cast<int>(threadIdx.x);
      const int four = at % kFours;
      const int other = at / kFours;
      Store(LoadFour(others, first_other + part + other, column + 4 * four),
            shared.chunks + (other * kColumns + 4 * four));
    }
    __syncthreads();
#pragma unroll 4
    for (int o = 0; o < kOthers; ++o) {
      const int other = part + o;
      const Floats<4> weight = Load<4>(shared.weights + PlaceOfFour(other, ThreadY()));
#pragma unroll
      for (int c = 0; c < Part::kCount; c += Part::kWide) {
        const float* const from = shared.chunks + (o * kColumns + Part::Column(c));
        float x[Part::kWide];
        if constexpr (Part::kWide == 4) {
          const Floats<4> four = Load<4>(from);
#pragma unroll
          for (int k = 0; k < 4; ++k) x[k] = four.v[k];
        } else {
#pragma unroll
          for (int k = 0; k < Part::kWide; ++k) x[k] = from[k];
        }
#pragma unroll
        for (int i = 0; i < kPart; ++i) {
          const bool meet = !kDiagonal || Meet<kRows>(kPart * ThreadY() + i, other);
#pragma unroll
          for (int k = 0; k < Part::kWide; ++k) {
            const float sum = sums->v[i][c + k] + weight.v[i] * x[k];
            if (meet) sums->v[i][c + k] = sum;
          }
        }
      }
    }
  }
}

template <int kColumns, RowsAre kRows>
__device__ inline void AddProducts(const Factors& others, int first_other, int column,
                                   bool diagonal, const Shared& shared, Sums<kColumns>* sums) {
  if (diagonal) {
    AddProductsOf<kColumns, kRows, true>(others, first_other, column, shared, sums);
  } else {
    AddProductsOf<kColumns, kRows, false>(others, first_other, column, shared, sums);
  }
}

// to[position, column + .] = the sums of each row times factors[i], as far as the matrix goes.
template <int kColumns>
__device__ inline void StoreSums(const Sums<kColumns>& sums, const float (&factors)[kPart],
                                 int first_row, int positions, int width, int column,
                                 int64_t stride, bool vector, float* to) {
  using Part = Sums<kColumns>;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    const int position = first_row + kPart * ThreadY() + i;
    if (position >= positions) continue;
    float* const row = to + position * stride;
#pragma unroll
    for (int c = 0; c < Part::kCount; c += Part::kWide) {
      const int first = column + Part::Column(c);
      if constexpr (Part::kWide == 4) {
        Floats<4> x;
#pragma unroll
        for (int k = 0; k < 4; ++k) x.v[k] = sums.v[i][c + k] * factors[i];
        if (first < width) StoreQuad(x, row, first, width, vector);
      } else {
#pragma unroll
        for (int k = 0; k < Part::kWide; ++k) {
          if (first + k < width) row[first + k] = sums.v[i][c + k] * factors[i];
        }
      }
    }
  }
}

// Which tile of which head a block works on. Tiles with much to do come first.
struct Work {
  int64_t first_position;  // row of the sequence's first position
  int head;
  int tile;          // in order of falling work
  int column_block;  // of kColumns
};

__device__ inline Work WorkOfBlock(int64_t sequences, int heads, int column_blocks, int positions) {
  int64_t at = blockIdx.x;
  Work work;
  work.column_block = static_cast<int>(at % column_blocks);
  at /= column_blocks;
  work.head = static_cast<int>(at % heads);
  at /= heads;
  work.first_position = at % sequences * positions;
  work.tile = static_cast<int>(at / sequences);
  return work;
}

// What is the same for all blocks of a launch.
struct Sizes {
  int64_t sequences;
  int positions, heads, width;
  int64_t stride;  // of queries, keys and values; a third of it for results
  float scale;     // of scores
  bool rounds;     // factors to bfloat16
  bool vector;     // all rows of factors are multiples of 16 bytes

  int tiles() const { return static_cast<int>(CeilDivide(positions, kTile)); }
  unsigned blocks(int columns) const {
    return static_cast<unsigned>(sequences * heads * tiles() * CeilDivide(width, columns));
  }
  __device__ Factors Of(const float* data, int64_t stride_in) const {
    return {data, stride_in, positions, width, vector, rounds};
  }
};

// `aligned`: all matrices begin at multiples of 16 bytes.
inline Sizes SizesOf(const AttentionShape& shape, Precision precision, ConstMatrix qkv,
                     bool aligned) {
  Sizes sizes;
  sizes.sequences = qkv.rows / shape.positions;
  sizes.positions = static_cast<int>(shape.positions);
  sizes.heads = static_cast<int>(shape.heads);
  sizes.width = static_cast<int>(qkv.cols / 3 / shape.heads);
  sizes.stride = qkv.cols;
  sizes.scale = 1.0f / std::sqrt(static_cast<float>(sizes.width));
  sizes.rounds = precision == Precision::kBf16;
  sizes.vector = aligned && sizes.width % 4 == 0;
  return sizes;
}

}  // namespace sangam::cuda_kernels::attention

#endif  // SANGAM_WORKER_BACKEND_CUDA_ATTENTION_TILES_CUH_
