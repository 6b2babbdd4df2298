#include <cuda_runtime.h>
#include <math.h>

#include <cstddef>
#include <cstdint>

#include "worker/backend/cuda/grid.h"
#include "worker/backend/cuda/launch.h"
#include "worker/backend/cuda/losses.h"
#include "worker/backend/cuda/reduce.cuh"
#include "worker/backend/cuda/vector_load.cuh"
#include "worker/backend/shapes.h"
#include "worker/backend/views.h"

namespace sangam::cuda_kernels {
namespace {

constexpr int kFinishThreads = 1024;

// Parts of the sums in scratch memory: of rows, or of blocks.
struct Parts {
  double* losses;
  unsigned* correct;
};

constexpr size_t kPartBytes = sizeof(double) + sizeof(unsigned);

Parts PartsIn(void* scratch, int64_t count) {
  auto* const losses = static_cast<double*>(scratch);
  return {losses, reinterpret_cast<unsigned*>(losses + count)};
}

// Sums over a block of kBlock threads; only thread 0 has them.
template <int kBlock, typename Count>
__device__ inline void BlockSums(double* loss, Count* correct) {
  __shared__ double losses[kBlock / kWarp];
  __shared__ Count counts[kBlock / kWarp];
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    *loss += __shfl_xor_sync(0xFFFFFFFFu, *loss, distance);
    *correct += __shfl_xor_sync(0xFFFFFFFFu, *correct, distance);
  }
  if (threadIdx.x % kWarp == 0) {
    losses[threadIdx.x / kWarp] = *loss;
    counts[threadIdx.x / kWarp] = *correct;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kBlock / kWarp; ++warp) {
    *loss += losses[warp];
    *correct += counts[warp];
  }
}

// One block adds all parts.
__global__ void __launch_bounds__(kFinishThreads)
    FinishKernel(Parts parts, int64_t count, ClassificationSums* sums) {
  double loss = 0;
  unsigned long long correct = 0;
  for (int64_t i = threadIdx.x; i < count; i += kFinishThreads) {
    loss += parts.losses[i];
    correct += parts.correct[i];
  }
  BlockSums<kFinishThreads>(&loss, &correct);
  if (threadIdx.x != 0) return;
  sums->loss = loss;
  sums->correct = correct;
}

cudaError_t Finish(cudaStream_t stream, const Parts& parts, int64_t count,
                   ClassificationSums* sums) {
  SANGAM_LAUNCH(FinishKernel, 1, kFinishThreads, 0, stream, parts, count, sums);
  return cudaGetLastError();
}

// What was seen of a row.
struct Seen {
  float largest;  // passes over NaN, which the sum shows
  float sum;      // of exp(x - largest)
  int64_t at;     // the first place of the largest
};

// Where exponentials are taken from: -inf - -inf would be no number.
__device__ inline float Base(float largest) { return largest == -INFINITY ? 0.0f : largest; }

// What a sum is multiplied by when a larger element is found.
__device__ inline float Correction(float before, float now) {
  return before == now ? 1.0f : expf(before - now);
}

// The same bits for (a, b) and (b, a): threads exchange what they have seen.
__device__ inline Seen Together(const Seen& a, const Seen& b) {
  Seen both;
  both.largest = fmaxf(a.largest, b.largest);
  both.sum = __fadd_rn(__fmul_rn(a.sum, Correction(a.largest, both.largest)),
                       __fmul_rn(b.sum, Correction(b.largest, both.largest)));
  const bool is_a = a.largest == b.largest ? a.at < b.at : a.largest > b.largest;
  both.at = is_a ? a.at : b.at;
  return both;
}

__device__ inline Seen OfLane(const Seen& seen, int distance) {
  return {__shfl_xor_sync(0xFFFFFFFFu, seen.largest, distance),
          __shfl_xor_sync(0xFFFFFFFFu, seen.sum, distance),
          __shfl_xor_sync(0xFFFFFFFFu, seen.at, distance)};
}

// What kGroup threads have seen together: a warp, or the block.
template <int kGroup>
__device__ inline Seen AllSeen(Seen seen) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    seen = Together(seen, OfLane(seen, distance));
  }
  if constexpr (kGroup > kWarp) {
    __shared__ Seen warps[kGroup / kWarp];
    __syncthreads();  // the row before may still be read
    if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = seen;
    __syncthreads();
    seen = warps[0];
    for (int warp = 1; warp < kGroup / kWarp; ++warp) seen = Together(seen, warps[warp]);
  }
  return seen;
}

// One thread's share of a row: four neighbours in each 4 * kGroup.
template <int kGroup>
__device__ inline Seen LookAt(const float* row, int64_t cols, int lane, bool vector) {
  Seen seen = {-INFINITY, 0.0f, 4 * int64_t{lane}};
  for (int64_t first = 4 * int64_t{lane}; first < cols; first += 4 * kGroup) {
    const Floats<4> x = LoadQuad(row, first, cols, vector);
    const float before = seen.largest;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (first + k >= cols || !(x.v[k] > seen.largest)) continue;
      seen.largest = x.v[k];
      seen.at = first + k;
    }
    const float base = Base(seen.largest);
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (first + k < cols) sum += expf(x.v[k] - base);
    }
    seen.sum = fmaf(seen.sum, Correction(before, seen.largest), sum);
  }
  return seen;
}

// A group of kGroup threads for each row: reads it once for the sum, and once more for the
// gradient.
template <int kGroup, int kBlock>
__global__ void __launch_bounds__(kBlock)
    SoftmaxKernel(const float* logits, int64_t rows, int64_t cols,
                  const uint32_t* __restrict__ labels, bool vector, float* gradient, Parts parts) {
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
  const int64_t groups = int64_t{gridDim.x} * (kBlock / kGroup);
  const int64_t first_row = (int64_t{blockIdx.x} * kBlock + threadIdx.x) / kGroup;
  for (int64_t r = first_row; r < rows; r += groups) {
    const float* const row = logits + r * cols;
    const int64_t label = labels[r];
    // Read before the gradient, which may be the same memory, is written.
    const float of_label = row[label];
    const float of_first = row[0];
    const Seen seen = AllSeen<kGroup>(LookAt<kGroup>(row, cols, lane, vector));
    if (lane == 0) {
      parts.losses[r] = log(double{seen.sum}) - (double{of_label} - double{seen.largest});
      // Where the first one is NaN, nothing is predicted.
      parts.correct[r] = seen.at == label && of_first == of_first ? 1 : 0;
    }
    if (gradient == nullptr) continue;
    // All of a group have read the row's label by now; blocks have met in AllSeen.
    if (kGroup == 32) __syncwarp();
    const float base = Base(seen.largest);
    const float scale = 1.0f / seen.sum;
    for (int64_t first = 4 * int64_t{lane}; first < cols; first += 4 * kGroup) {
      Floats<4> x = LoadQuad(row, first, cols, vector);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        x.v[k] = __fmul_rn(expf(x.v[k] - base), scale);
        if (first + k == label) x.v[k] -= 1.0f;
      }
      StoreQuad(x, gradient + r * cols, first, cols, vector);
    }
  }
}

template <int kGroup, int kBlock>
void LaunchSoftmax(cudaStream_t stream, ConstMatrix logits, const uint32_t* labels, bool vector,
                   float* gradient, const Parts& parts) {
  SANGAM_LAUNCH((SoftmaxKernel<kGroup, kBlock>), GridBlocks(logits.rows, kBlock / kGroup), kBlock,
                0, stream, logits.data, logits.rows, logits.cols, labels, vector, gradient, parts);
}

struct Term {
  double loss;
  unsigned correct;
};

struct SquaredErrorOf {
  __device__ static Term Loss(float output, float target) {
    const double error = double{output} - double{target};
    return {error * error, 0};
  }
  __device__ static float Gradient(float output, float target) { return 2.0f * (output - target); }
};

struct BinaryCrossEntropyOf {
  __device__ static Term Loss(float output, float target) {
    const double o = output;
    const double softplus = log1p(exp(-fabs(o)));
    return {((o < 0 ? 0.0 : o) - o * double{target}) + softplus,
            (output > 0) == (target >= 0.5f) ? 1u : 0u};
  }
  __device__ static float Gradient(float output, float target) {
    // exp of what is negative never overflows.
    const float e = expf(-fabsf(output));
    const float s = 1.0f / (1.0f + e);
    return __fadd_rn(output < 0 ? __fmul_rn(e, s) : s, -target);
  }
};

// Each block leaves a part of the sums.
template <typename Of>
__global__ void __launch_bounds__(kThreads)
    NumberLossKernel(const float* outputs, int64_t size, const float* __restrict__ targets,
                     float* gradient, Parts parts) {
  double loss = 0;
  unsigned correct = 0;
  const int64_t threads = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < size; i += threads) {
    const float output = outputs[i];
    const float target = targets[i];
    const Term term = Of::Loss(output, target);
    loss += term.loss;
    correct += term.correct;
    if (gradient != nullptr) gradient[i] = Of::Gradient(output, target);
  }
  BlockSums<kThreads>(&loss, &correct);
  if (threadIdx.x != 0) return;
  parts.losses[blockIdx.x] = loss;
  parts.correct[blockIdx.x] = correct;
}

// A thread has a few elements at least, so that there are few parts.
unsigned NumberLossBlocks(int64_t elements) { return GridBlocks(elements, 8 * kThreads); }

template <typename Of>
cudaError_t NumberLoss(cudaStream_t stream, ConstMatrix outputs, const float* targets,
                       float* gradient, void* scratch, ClassificationSums* sums) {
  const unsigned blocks = NumberLossBlocks(outputs.size());
  const Parts parts = PartsIn(scratch, blocks);
  SANGAM_LAUNCH(NumberLossKernel<Of>, blocks, kThreads, 0, stream, outputs.data, outputs.size(),
                targets, gradient, parts);
  return Finish(stream, parts, blocks, sums);
}

}  // namespace

size_t SoftmaxCrossEntropyScratchBytes(int64_t rows) {
  return static_cast<size_t>(rows) * kPartBytes;
}

cudaError_t SoftmaxCrossEntropy(cudaStream_t stream, ConstMatrix logits, const uint32_t* labels,
                                float* gradient, void* scratch, ClassificationSums* sums) {
  const Parts parts = PartsIn(scratch, logits.rows);
  const bool vector = Aligned16(logits.data, gradient) && logits.cols % 4 == 0;
  if (logits.cols <= 1024) {
    LaunchSoftmax<kWarp, kThreads>(stream, logits, labels, vector, gradient, parts);
  } else if (logits.cols <= 16384) {
    LaunchSoftmax<256, 256>(stream, logits, labels, vector, gradient, parts);
  } else {
    LaunchSoftmax<1024, 1024>(stream, logits, labels, vector, gradient, parts);
  }
  return Finish(stream, parts, logits.rows, sums);
}

size_t NumberLossScratchBytes(int64_t elements) { return NumberLossBlocks(elements) * kPartBytes; }

cudaError_t SquaredError(cudaStream_t stream, ConstMatrix outputs, const float* targets,
                         float* gradient, void* scratch, ClassificationSums* sums) {
  return NumberLoss<SquaredErrorOf>(stream, outputs, targets, gradient, scratch, sums);
}

cudaError_t BinaryCrossEntropy(cudaStream_t stream, ConstMatrix outputs, const float* targets,
                               float* gradient, void* scratch, ClassificationSums* sums) {
  return NumberLoss<BinaryCrossEntropyOf>(stream, outputs, targets, gradient, scratch, sums);
}

}  // namespace sangam::cuda_kernels
