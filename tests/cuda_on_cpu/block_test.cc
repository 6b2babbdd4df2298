#include "tests/cuda_on_cpu/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda_on_cpu/device_array.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "worker/backend/cuda/launch.h"

namespace cuda_on_cpu::tests {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr unsigned kAll = 0xffffffffu;

__global__ void NoteTurn(int* turns, int* counter) {
  const int thread = threadIdx.x;
  turns[blockIdx.x * blockDim.x + thread] = atomicAdd(counter, 1);
}

std::vector<int> Turns(Order order, uint64_t seed) {
  SetOrder(order, seed);
  DeviceArray<int> turns(8), counter(std::vector<int>{0});
  SANGAM_LAUNCH(NoteTurn, 2, 4, 0, nullptr, turns.data(), counter.data());
  SetOrder(Order::kForward);
  return turns.Values();
}

TEST(BlockTest, ThreadsAndBlocksRunInTheOrderThatIsSet) {
  EXPECT_THAT(Turns(Order::kForward, 0), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Turns(Order::kReverse, 0), ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
  const std::vector<int> random = Turns(Order::kRandom, 1);
  EXPECT_EQ(random, Turns(Order::kRandom, 1));
  EXPECT_NE(random, Turns(Order::kRandom, 2));
  EXPECT_THAT(random, ::testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

__global__ void NoteIndices(int* indices) {
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  __syncthreads();
  indices[block * threads + thread] =
      block * 1000 + threadIdx.x * 100 + threadIdx.y * 10 + threadIdx.z;
}

TEST(BlockTest, ThreeDimensionalIndicesSurviveABarrier) {
  DeviceArray<int> indices(2 * 3 * 2 * 24);
  SANGAM_LAUNCH(NoteIndices, dim3(2, 3, 2), dim3(2, 3, 4), 0, nullptr, indices.data());
  const std::vector<int> found = indices.Values();
  size_t at = 0;
  for (int block = 0; block < 12; ++block) {
    for (int z = 0; z < 4; ++z) {
      for (int y = 0; y < 3; ++y) {
        for (int x = 0; x < 2; ++x) {
          ASSERT_EQ(found[at++], block * 1000 + x * 100 + y * 10 + z);
        }
      }
    }
  }
}

__global__ void CountPredicates(int* counts, int* alls, int* anys) {
  const int i = threadIdx.x;
  counts[i] = __syncthreads_count(i % 3 == 0);
  alls[i] = __syncthreads_and(i >= 0) * 2 + __syncthreads_and(i > 0);
  anys[i] = __syncthreads_or(i == 5) * 2 + __syncthreads_or(i == 100);
}

TEST(BlockTest, BarriersCountPredicates) {
  DeviceArray<int> counts(100), alls(100), anys(100);
  SANGAM_LAUNCH(CountPredicates, 1, 100, 0, nullptr, counts.data(), alls.data(), anys.data());
  EXPECT_THAT(counts.Values(), Each(34));
  EXPECT_THAT(alls.Values(), Each(2));
  EXPECT_THAT(anys.Values(), Each(2));
}

__global__ void SumByHalves(const float* x, float* sum) {
  __shared__ float tile[1024];
  const unsigned i = threadIdx.x;
  tile[i] = x[i];
  for (unsigned half = 512; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) tile[i] += tile[i + half];
  }
  if (i == 0) *sum = tile[0];
}

TEST(BlockTest, ABarrierInALoopGivesTheSameSumInEveryOrder) {
  std::vector<float> x(1024);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const DeviceArray<float> device_x(x);
  for (Order order : {Order::kForward, Order::kReverse, Order::kRandom}) {
    SetOrder(order, 3);
    DeviceArray<float> sum(1);
    SANGAM_LAUNCH(SumByHalves, 1, 1024, 0, nullptr, device_x.data(), sum.data());
    EXPECT_THAT(sum.Values(), ElementsAre(1023 * 512));
  }
  SetOrder(Order::kForward);
}

__global__ void ExitEarly(int* done) {
  if (threadIdx.x >= 10) return;
  __syncthreads();
  *done = 1;
}

TEST(BlockDeathTest, ABarrierAfterSomeThreadsHaveEnded) {
  DeviceArray<int> done(1);
  EXPECT_DEATH(
      {
        SANGAM_LAUNCH(ExitEarly, 1, 32, 0, nullptr, done.data());
        cudaDeviceSynchronize();
      },
      "barrier that not all threads reach: .*thread 10 has ended.*kernel ExitEarly, "
      "block \\(0, 0, 0\\), thread \\(0, 0, 0\\)");
}

__global__ void Diverge(int* done) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    *done = 1;
    __syncthreads();
  }
}

TEST(BlockDeathTest, ABarrierInADivergentBranch) {
  DeviceArray<int> done(1);
  EXPECT_DEATH(
      {
        SANGAM_LAUNCH(Diverge, 1, 32, 0, nullptr, done.data());
        cudaDeviceSynchronize();
      },
      "barrier in a divergent branch: .*block_test.cc:[0-9]+.* in kernel Diverge, "
      "block \\(0, 0, 0\\), thread \\(1, 0, 0\\)");
}

__global__ void Shuffle(int* idx, int* up, int* down, int* flip) {
  const int lane = threadIdx.x;
  idx[lane] = __shfl_sync(kAll, lane * 10, 3);
  up[lane] = __shfl_up_sync(kAll, lane * 10, 2);
  down[lane] = __shfl_down_sync(kAll, lane * 10, 2, 16);
  flip[lane] = __shfl_xor_sync(kAll, lane * 10, 1);
}

TEST(WarpTest, ShufflesFollowCudasRules) {
  DeviceArray<int> idx(32), up(32), down(32), flip(32);
  SANGAM_LAUNCH(Shuffle, 1, 32, 0, nullptr, idx.data(), up.data(), down.data(), flip.data());
  EXPECT_THAT(idx.Values(), Each(30));
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(up.Values()[lane], lane < 2 ? lane * 10 : (lane - 2) * 10);
    EXPECT_EQ(down.Values()[lane], lane % 16 >= 14 ? lane * 10 : (lane + 2) * 10);
    EXPECT_EQ(flip.Values()[lane], (lane ^ 1) * 10);
  }
}

__global__ void SumWarps(const float* x, float* sums) {
  float sum = x[threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAll, sum, distance);
  __syncwarp();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
}

TEST(WarpTest, AShuffleBelongsToItsWarp) {
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const DeviceArray<float> device_x(x);
  DeviceArray<float> sums(2);
  SANGAM_LAUNCH(SumWarps, 1, 64, 0, nullptr, device_x.data(), sums.data());
  EXPECT_THAT(sums.Values(), ElementsAre(31 * 16, 31 * 16 + 32 * 32));
}

__global__ void Vote(unsigned* ballots, int* anys, int* alls) {
  const unsigned mask = threadIdx.x < 16 ? 0xffffu : 0xffff0000u;
  ballots[threadIdx.x] = __ballot_sync(mask, threadIdx.x % 2);
  anys[threadIdx.x] = __any_sync(mask, threadIdx.x == 20);
  alls[threadIdx.x] = __all_sync(mask, threadIdx.x < 16);
}

TEST(WarpTest, HalvesOfAWarpVoteByThemselves) {
  DeviceArray<unsigned> ballots(32);
  DeviceArray<int> anys(32), alls(32);
  SANGAM_LAUNCH(Vote, 1, 32, 0, nullptr, ballots.data(), anys.data(), alls.data());
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(ballots.Values()[lane], lane < 16 ? 0xaaaau : 0xaaaa0000u);
    EXPECT_EQ(anys.Values()[lane], lane < 16 ? 0 : 1);
    EXPECT_EQ(alls.Values()[lane], lane < 16 ? 1 : 0);
  }
}

__global__ void ShuffleFromNobody(float* x) {
  if (threadIdx.x >= 16) return;
  x[threadIdx.x] = __shfl_down_sync(kAll, 1.0f, 8);
}

TEST(WarpTest, WhatComesFromAThreadThatHasEndedIsGarbage) {
  DeviceArray<float> x(16);
  SANGAM_LAUNCH(ShuffleFromNobody, 1, 32, 0, nullptr, x.data());
  EXPECT_EQ(x.Values()[7], 1.0f);
  EXPECT_NE(x.Values()[8], x.Values()[8]);
}

__global__ void DifferentMasks(int* x) {
  x[threadIdx.x] = __shfl_sync(threadIdx.x < 16 ? kAll : 0xffff0001u, 1, 0);
}

TEST(WarpDeathTest, MasksThatDoNotMatch) {
  DeviceArray<int> x(32);
  EXPECT_DEATH(
      {
        SANGAM_LAUNCH(DifferentMasks, 1, 32, 0, nullptr, x.data());
        cudaDeviceSynchronize();
      },
      "mismatch in a warp: .*0xffff0001.* in kernel DifferentMasks");
}

__global__ void MaskWithoutMe() { __syncwarp(0x1u); }

TEST(WarpDeathTest, AMaskThatLeavesOutTheCaller) {
  EXPECT_DEATH(
      {
        SANGAM_LAUNCH(MaskWithoutMe, 1, 32, 0, nullptr);
        cudaDeviceSynchronize();
      },
      "mask 0x00000001 does not name the calling lane 1 in kernel MaskWithoutMe");
}

__global__ void ShuffleInABranch(int* x) {
  if (threadIdx.x < 16) {
    x[threadIdx.x] = __shfl_xor_sync(kAll, 1, 1);
  } else {
    __syncthreads();
  }
}

TEST(WarpDeathTest, AWarpThatWaitsForThreadsAtABarrier) {
  DeviceArray<int> x(32);
  EXPECT_DEATH(
      {
        SANGAM_LAUNCH(ShuffleInABranch, 1, 32, 0, nullptr, x.data());
        cudaDeviceSynchronize();
      },
      "barrier that not all threads reach: .*waits for its warp");
}

}  // namespace
}  // namespace cuda_on_cpu::tests
