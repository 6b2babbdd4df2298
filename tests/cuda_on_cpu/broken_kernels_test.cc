// The test of the tests: each common fault of a kernel is found, and the kernel without it passes,
// in every order.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/cuda_on_cpu/device_array.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "worker/backend/cuda/launch.h"

namespace cuda_on_cpu::tests {
namespace {

constexpr int kThreads = 64;

// What a kernel may get wrong.
enum class Fault { kNone, kMissing, kOffByOne };

std::vector<float> Numbers(int n) {
  std::vector<float> x(n);
  for (int i = 0; i < n; ++i) x[i] = static_cast<float>(i % 17);
  return x;
}

// Runs `run` in each order. True if every result is `expected`.
template <typename Run>
bool RightInEveryOrder(const std::vector<float>& expected, Run run) {
  bool right = true;
  for (Order order : {Order::kForward, Order::kReverse, Order::kRandom}) {
    SetOrder(order, 5);
    right = run() == expected && right;
  }
  SetOrder(Order::kForward);
  return right;
}

// y = x + 1.
template <Fault kFault>
__global__ void AddOne(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int end = kFault == Fault::kOffByOne ? n + 1 : n;
  if (kFault == Fault::kMissing || i < end) y[i] = x[i] + 1;
}

template <Fault kFault>
std::vector<float> RunAddOne(int n) {
  const DeviceArray<float> x(Numbers(n)), y(n);
  SANGAM_LAUNCH(AddOne<kFault>, (n + kThreads - 1) / kThreads, kThreads, 0, nullptr, x.data(),
                y.data(), n);
  cudaDeviceSynchronize();
  return y.Values();
}

TEST(BrokenKernelsDeathTest, BoundsCheck) {
  std::vector<float> expected = Numbers(100);
  for (float& value : expected) value += 1;
  EXPECT_TRUE(RightInEveryOrder(expected, [] { return RunAddOne<Fault::kNone>(100); }));
  EXPECT_DEATH(RunAddOne<Fault::kMissing>(65), "something wrote . bytes after the end of the 260");
  EXPECT_DEATH(RunAddOne<Fault::kMissing>(100), "something wrote . bytes after the end of the 400");
  EXPECT_DEATH(RunAddOne<Fault::kOffByOne>(127),
               "something wrote . bytes after the end of the 508");
}

// Turns a block of numbers round.
template <Fault kFault>
__global__ void Reverse(const float* x, float* y) {
  __shared__ float tile[kThreads];
  tile[threadIdx.x] = x[threadIdx.x];
  if (kFault != Fault::kMissing) __syncthreads();
  y[threadIdx.x] = tile[kThreads - 1 - threadIdx.x];
}

template <Fault kFault>
std::vector<float> RunReverse() {
  const DeviceArray<float> x(Numbers(kThreads)), y(kThreads);
  SANGAM_LAUNCH(Reverse<kFault>, 1, kThreads, 0, nullptr, x.data(), y.data());
  return y.Values();
}

TEST(BrokenKernelsTest, MissingBarrierAfterAWrite) {
  const std::vector<float> x = Numbers(kThreads);
  const std::vector<float> expected(x.rbegin(), x.rend());
  EXPECT_TRUE(RightInEveryOrder(expected, [] { return RunReverse<Fault::kNone>(); }));
  EXPECT_FALSE(RightInEveryOrder(expected, [] { return RunReverse<Fault::kMissing>(); }));
}

// Sums of neighbours, tile after tile: the second barrier keeps a tile until all have read it.
template <Fault kFault>
__global__ void SumNeighbours(const float* x, float* y, int tiles) {
  __shared__ float tile[kThreads];
  float sum = 0;
  for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = x[t * kThreads + threadIdx.x];
    __syncthreads();
    sum += tile[threadIdx.x] + tile[(threadIdx.x + 1) % kThreads];
    if (kFault != Fault::kMissing) __syncthreads();
  }
  y[threadIdx.x] = sum;
}

template <Fault kFault>
std::vector<float> RunSumNeighbours() {
  const DeviceArray<float> x(Numbers(kThreads * 3)), y(kThreads);
  SANGAM_LAUNCH(SumNeighbours<kFault>, 1, kThreads, 0, nullptr, x.data(), y.data(), 3);
  return y.Values();
}

TEST(BrokenKernelsTest, MissingBarrierBeforeTheNextWrite) {
  const std::vector<float> x = Numbers(kThreads * 3);
  std::vector<float> expected(kThreads, 0);
  for (int t = 0; t < 3; ++t) {
    for (int i = 0; i < kThreads; ++i) {
      expected[i] += x[t * kThreads + i] + x[t * kThreads + (i + 1) % kThreads];
    }
  }
  EXPECT_TRUE(RightInEveryOrder(expected, [] { return RunSumNeighbours<Fault::kNone>(); }));
  EXPECT_FALSE(RightInEveryOrder(expected, [] { return RunSumNeighbours<Fault::kMissing>(); }));
}

// A sum that only works if shared memory happens to begin as zero.
template <Fault kFault>
__global__ void CountPositive(const float* x, float* count) {
  __shared__ int sum;
  if (kFault != Fault::kMissing && threadIdx.x == 0) sum = 0;
  __syncthreads();
  if (x[threadIdx.x] > 0) atomicAdd(&sum, 1);
  __syncthreads();
  if (threadIdx.x == 0) *count = static_cast<float>(sum);
}

template <Fault kFault>
std::vector<float> RunCountPositive() {
  const DeviceArray<float> x(Numbers(kThreads)), count(1);
  SANGAM_LAUNCH(CountPositive<kFault>, 1, kThreads, 0, nullptr, x.data(), count.data());
  return count.Values();
}

TEST(BrokenKernelsTest, SharedMemoryThatNobodyInitialises) {
  EXPECT_TRUE(RightInEveryOrder({60}, [] { return RunCountPositive<Fault::kNone>(); }));
  EXPECT_FALSE(RightInEveryOrder({60}, [] { return RunCountPositive<Fault::kMissing>(); }));
}

// Two blocks write the same number of the result.
template <Fault kFault>
__global__ void SumBlocks(const float* x, float* sum) {
  const float own = x[blockIdx.x];
  if (kFault == Fault::kNone) {
    atomicAdd(sum, own);
  } else {
    *sum = own;
  }
}

template <Fault kFault>
std::vector<float> RunSumBlocks() {
  const DeviceArray<float> x(Numbers(5)), sum(std::vector<float>{0});
  SANGAM_LAUNCH(SumBlocks<kFault>, 5, 1, 0, nullptr, x.data(), sum.data());
  return sum.Values();
}

TEST(BrokenKernelsTest, BlocksThatOverwriteEachOther) {
  EXPECT_TRUE(RightInEveryOrder({10}, [] { return RunSumBlocks<Fault::kNone>(); }));
  // The last block's number, whichever block that is.
  EXPECT_FALSE(RightInEveryOrder({4}, [] { return RunSumBlocks<Fault::kMissing>(); }));
}

// The first warp adds up; the barrier must be outside the branch.
template <Fault kFault>
__global__ void SumInABranch(const float* x, float* sum) {
  __shared__ float tile[kThreads];
  tile[threadIdx.x] = x[threadIdx.x];
  if (kFault == Fault::kNone) __syncthreads();
  if (threadIdx.x < 32) {
    if (kFault != Fault::kNone) __syncthreads();
    float own = tile[threadIdx.x] + tile[threadIdx.x + 32];
    for (int distance = 16; distance > 0; distance /= 2) {
      own += __shfl_xor_sync(0xffffffffu, own, distance);
    }
    if (threadIdx.x == 0) *sum = own;
  }
}

template <Fault kFault>
std::vector<float> RunSumInABranch() {
  const DeviceArray<float> x(Numbers(kThreads)), sum(1);
  SANGAM_LAUNCH(SumInABranch<kFault>, 1, kThreads, 0, nullptr, x.data(), sum.data());
  return sum.Values();
}

TEST(BrokenKernelsDeathTest, BarrierInABranch) {
  EXPECT_TRUE(RightInEveryOrder({486}, [] { return RunSumInABranch<Fault::kNone>(); }));
  EXPECT_DEATH(RunSumInABranch<Fault::kMissing>(), "barrier that not all threads reach");
}

TEST(BrokenKernelsDeathTest, HostPointer) {
  std::vector<float> host(kThreads);
  const DeviceArray<float> y(kThreads);
  EXPECT_DEATH(
      SANGAM_LAUNCH(AddOne<Fault::kNone>, 1, kThreads, 0, nullptr, host.data(), y.data(), kThreads),
      "kernel AddOne<Fault::kNone>: argument 0");
}

// Sums of four neighbours, which are read at once.
template <Fault kFault>
__global__ void SumFours(const float* x, float* sums) {
  const int first = 4 * static_cast<int>(threadIdx.x) + (kFault == Fault::kOffByOne ? 1 : 0);
  const float4 four = *reinterpret_cast<const float4*>(x + first);
  sums[threadIdx.x] = four.x + four.y + four.z + four.w;
}

template <Fault kFault>
std::vector<float> RunSumFours() {
  const DeviceArray<float> x(Numbers(12)), sums(2);
  SANGAM_LAUNCH(SumFours<kFault>, 1, 2, 0, nullptr, x.data(), sums.data());
  cudaDeviceSynchronize();
  return sums.Values();
}

TEST(BrokenKernelsDeathTest, VectorBesideItsAlignment) {
  EXPECT_TRUE(RightInEveryOrder({6, 22}, [] { return RunSumFours<Fault::kNone>(); }));
  EXPECT_DEATH(RunSumFours<Fault::kOffByOne>(),
               "no multiple of the type's alignment in kernel SumFours<.*>, block \\(0, 0, 0\\), "
               "thread \\(0, 0, 0\\)");
}

struct Arguments {
  const float* x;
  float* y;
};

__global__ void CopyFirst(Arguments arguments) { *arguments.y = *arguments.x; }

TEST(BrokenKernelsDeathTest, HostPointerInAStruct) {
  // Not seen at the launch; the device's memory is apart, so the address of nothing is caught.
  const DeviceArray<float> y(1);
  EXPECT_DEATH(
      {
        SANGAM_LAUNCH(CopyFirst, 1, 1, 0, nullptr, Arguments{nullptr, y.data()});
        cudaDeviceSynchronize();
      },
      "access to .*, outside all device memory in kernel CopyFirst");
}

// y is computed in a stream of its own, from what another stream writes.
std::vector<float> RunTwoStreams(bool waits) {
  cudaStream_t first, second;
  cudaEvent_t done;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
  std::vector<float> result;
  {
    const DeviceArray<float> x(Numbers(kThreads)), y(kThreads), z(kThreads);
    SANGAM_LAUNCH(AddOne<Fault::kNone>, 1, kThreads, 0, first, x.data(), y.data(), kThreads);
    cudaEventRecord(done, first);
    if (waits) cudaStreamWaitEvent(second, done);
    SANGAM_LAUNCH(AddOne<Fault::kNone>, 1, kThreads, 0, second, y.data(), z.data(), kThreads);
    cudaStreamSynchronize(second);
    result = z.Values();
  }
  cudaEventDestroy(done);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  return result;
}

TEST(BrokenKernelsTest, MissingWaitBetweenStreams) {
  std::vector<float> expected = Numbers(kThreads);
  for (float& value : expected) value += 2;
  EXPECT_EQ(RunTwoStreams(true), expected);
  EXPECT_TRUE(std::isnan(RunTwoStreams(false)[0]));
}

}  // namespace
}  // namespace cuda_on_cpu::tests
