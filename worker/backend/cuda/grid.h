#ifndef SANGAM_WORKER_BACKEND_CUDA_GRID_H_
#define SANGAM_WORKER_BACKEND_CUDA_GRID_H_

#include <algorithm>
#include <cstdint>

// Sizes of launches: functions of shapes alone.
namespace sangam::cuda_kernels {

// Threads of a block, where the kernel has no reason for another number.
constexpr int kThreads = 256;

// A million threads, more than a device holds at once. Kernels loop over what is left.
constexpr int64_t kMaxBlocks = 4096;

constexpr int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Blocks for `items`, of which each block takes `items_per_block` at a time.
inline unsigned GridBlocks(int64_t items, int64_t items_per_block) {
  const int64_t blocks = CeilDivide(items, items_per_block);
  return static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, kMaxBlocks));
}

}  // namespace sangam::cuda_kernels

#endif  // SANGAM_WORKER_BACKEND_CUDA_GRID_H_
