#include "tests/cuda_on_cpu/grid.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "tests/cuda_on_cpu/block.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/shared_memory.h"

namespace cuda_on_cpu {
namespace {

// The order of the blocks: a walk over 0...count - 1 with a stride that has no divisor in common
// with `count`, so that every block comes once and nothing need be stored.
struct Walk {
  uint64_t first = 0;
  uint64_t stride = 1;
  uint64_t count;

  uint64_t At(uint64_t i) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(i) * stride + first) % count);
  }
};

Walk BlockWalk(uint64_t count, Order order, std::mt19937_64* random) {
  Walk walk;
  walk.count = count;
  if (order == Order::kReverse) {
    walk.first = count - 1;
    walk.stride = count - 1;
  } else if (order == Order::kRandom) {
    walk.first = (*random)() % count;
    do {
      walk.stride = (*random)() % count;
    } while (std::gcd(walk.stride, count) != 1);
  }
  return walk;
}

}  // namespace

void RunGrid(const LaunchShape& shape, GridOrder grid_order, const std::function<void()>& body) {
  const Order order = grid_order.order;
  std::mt19937_64 random(order == Order::kRandom ? grid_order.seed : 0);
  gridDim = shape.grid;
  blockDim = shape.block;
  std::vector<int> threads(size_t{shape.block.x} * shape.block.y * shape.block.z);
  std::iota(threads.begin(), threads.end(), 0);
  if (order == Order::kReverse) std::reverse(threads.begin(), threads.end());

  SharedMemory& shared = SharedMemory::Current();
  shared.BeginGrid(shape.function, shape.shared_bytes);
  BlockRunner& runner = BlockRunner::Current();
  const uint64_t row = shape.grid.x, plane = row * shape.grid.y;
  const Walk walk = BlockWalk(plane * shape.grid.z, order, &random);
  running_kernel = true;
  for (uint64_t i = 0; i < walk.count; ++i) {
    const uint64_t block = walk.At(i);
    blockIdx = {static_cast<unsigned>(block % row), static_cast<unsigned>(block % plane / row),
                static_cast<unsigned>(block / plane)};
    if (order == Order::kRandom) std::shuffle(threads.begin(), threads.end(), random);
    shared.BeginBlock();
    runner.Run(shape.block, threads, body);
    shared.EndBlock();
  }
  running_kernel = false;
  shared.EndGrid();
}

}  // namespace cuda_on_cpu
