#include "tests/cuda_on_cpu/streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <future>
#include <thread>
#include <vector>

#include "tests/cuda_on_cpu/device_array.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "worker/backend/cuda/launch.h"

namespace cuda_on_cpu::tests {
namespace {

using ::testing::Each;

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStreamCreateWithFlags(&stream_, flags);
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }  // NOLINT: as the API names it

 private:
  cudaStream_t stream_;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    cudaEventCreateWithFlags(&event_, flags);
  }
  ~Event() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }  // NOLINT: as the API names it

 private:
  cudaEvent_t event_;
};

class StreamsTest : public ::testing::Test {
 protected:
  StreamsTest() { cudaDeviceReset(); }
  ~StreamsTest() override { SetStreamMode(StreamMode::kLazy); }
};

__global__ void Fill(float* x, float value, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = value;
}

__global__ void AddOne(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1;
}

void FillWith(const DeviceArray<float>& x, float value, cudaStream_t stream) {
  SANGAM_LAUNCH(Fill, 1, 64, 0, stream, x.data(), value, static_cast<int>(x.size()));
}

TEST_F(StreamsTest, NothingHappensUntilSomebodyWaits) {
  const Stream stream;
  const DeviceArray<float> x(50);
  FillWith(x, 3, stream);
  EXPECT_EQ(PendingOperations(), 1u);
  // The default stream does not wait for a non-blocking one.
  EXPECT_TRUE(std::isnan(x.Values()[0]));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(PendingOperations(), 0u);
  EXPECT_THAT(x.Values(), Each(3));
}

TEST_F(StreamsTest, EagerStreamsDoTheirWorkAtOnce) {
  SetStreamMode(StreamMode::kEager);
  const Stream stream;
  const DeviceArray<float> x(50);
  FillWith(x, 3, stream);
  EXPECT_EQ(PendingOperations(), 0u);
  EXPECT_THAT(x.Values(), Each(3));
}

// y = x + 1 in another stream, which waits for the first one or does not.
float AcrossStreams(bool waits) {
  const Stream first, second;
  const DeviceArray<float> x(50), y(50);
  const Event filled;
  FillWith(x, 3, first);
  cudaEventRecord(filled, first);
  if (waits) cudaStreamWaitEvent(second, filled);
  SANGAM_LAUNCH(AddOne, 1, 64, 0, second, x.data(), y.data(), 50);
  cudaStreamSynchronize(second);
  const float result = y.Values()[0];
  cudaDeviceSynchronize();
  return result;
}

TEST_F(StreamsTest, AMissingWaitGivesAWrongResult) {
  EXPECT_EQ(AcrossStreams(true), 4);
  EXPECT_TRUE(std::isnan(AcrossStreams(false)));
}

TEST_F(StreamsTest, RandomStreamsFindAMissingWaitToo) {
  bool right = false, wrong = false;
  for (uint64_t seed = 1; seed < 30; ++seed) {
    SetStreamMode(StreamMode::kRandom, seed);
    EXPECT_EQ(AcrossStreams(true), 4);
    const float result = AcrossStreams(false);
    (result == 4 ? right : wrong) = true;
  }
  EXPECT_TRUE(right);
  EXPECT_TRUE(wrong);
}

TEST_F(StreamsTest, StreamsWaitForEachOtherInTurns) {
  const Stream first, second;
  const DeviceArray<float> x(std::vector<float>(50, 0));
  const Event event;
  for (int turn = 0; turn < 100; ++turn) {
    const cudaStream_t stream = turn % 2 == 0 ? first : second;
    const cudaStream_t other = turn % 2 == 0 ? second : first;
    SANGAM_LAUNCH(AddOne, 1, 64, 0, stream, x.data(), x.data(), 50);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(other, event);
  }
  cudaStreamSynchronize(first);
  EXPECT_THAT(x.Values(), Each(100));
}

TEST_F(StreamsTest, AWaitIsForTheRecordingThatWasThere) {
  const Stream first, second;
  const DeviceArray<float> x(50), y(50);
  const Event event;
  cudaStreamWaitEvent(second, event);  // never recorded: nothing to wait for
  FillWith(x, 1, first);
  cudaEventRecord(event, first);
  cudaStreamWaitEvent(second, event);
  FillWith(y, 2, first);
  cudaEventRecord(event, first);
  cudaStreamSynchronize(second);
  EXPECT_THAT(x.Values(), Each(1));
  EXPECT_TRUE(std::isnan(y.Values()[0]));
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_THAT(y.Values(), Each(2));
}

TEST_F(StreamsTest, QueriesMakeProgress) {
  const Stream stream;
  const DeviceArray<float> x(50);
  const Event event;
  FillWith(x, 1, stream);
  cudaEventRecord(event, stream);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

TEST_F(StreamsTest, TheDefaultStreamWaitsForBlockingOnes) {
  const Stream blocking(cudaStreamDefault);
  const DeviceArray<float> x(50), y(50);
  FillWith(x, 1, blocking);
  EXPECT_THAT(x.Values(), Each(1));
  FillWith(y, 5, nullptr);
  SANGAM_LAUNCH(AddOne, 1, 64, 0, blocking, y.data(), x.data(), 50);
  cudaStreamSynchronize(blocking);
  EXPECT_THAT(x.Values(), Each(6));
}

TEST_F(StreamsTest, APinnedBufferIsReadWhenTheCopyRuns) {
  const Stream stream;
  const DeviceArray<float> x(1);
  float* pinned;
  ASSERT_EQ(cudaMallocHost(&pinned, 4), cudaSuccess);
  *pinned = 1;
  cudaMemcpyAsync(x.data(), pinned, 4, cudaMemcpyHostToDevice, stream);
  *pinned = 2;  // too early
  cudaStreamSynchronize(stream);
  EXPECT_EQ(x.Values()[0], 2);
  cudaFreeHost(pinned);
}

TEST_F(StreamsTest, APageableBufferIsReadAtOnce) {
  const Stream stream;
  const DeviceArray<float> x(1);
  float pageable = 1;
  cudaMemcpyAsync(x.data(), &pageable, 4, cudaMemcpyHostToDevice, stream);
  pageable = 2;
  float result = 0;
  // To pageable memory: complete when the call returns.
  cudaMemcpyAsync(&result, x.data(), 4, cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(result, 1);
}

// Nor is that promised.
TEST_F(StreamsTest, APageableBufferMayAlsoBeReadLater) {
  SetPageableMode(PageableMode::kLate);
  const Stream stream;
  const DeviceArray<float> x(1);
  float pageable = 1;
  cudaMemcpyAsync(x.data(), &pageable, 4, cudaMemcpyHostToDevice, stream);
  pageable = 2;  // too early
  float result = 0;
  cudaMemcpyAsync(&result, x.data(), 4, cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(result, 0);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(result, 2);
  // Without a stream all of it has happened.
  pageable = 3;
  EXPECT_EQ(cudaMemcpy(x.data(), &pageable, 4, cudaMemcpyHostToDevice), cudaSuccess);
  pageable = 4;
  EXPECT_EQ(x.Values()[0], 3);
  SetPageableMode(PageableMode::kStaged);
}

TEST_F(StreamsTest, ACopyToPinnedMemoryComesLater) {
  const Stream stream;
  const DeviceArray<float> x(std::vector<float>{7});
  std::vector<float> pinned{0};
  ASSERT_EQ(cudaHostRegister(pinned.data(), 4, cudaHostRegisterDefault), cudaSuccess);
  cudaMemcpyAsync(pinned.data(), x.data(), 4, cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(pinned[0], 0);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(pinned[0], 7);
  cudaHostUnregister(pinned.data());
}

void CallTheApi(void* error) { *static_cast<cudaError_t*>(error) = cudaDeviceSynchronize(); }

TEST_F(StreamsTest, HostFunctionsRunInTheirTurnAndMayNotCallTheApi) {
  const Stream stream;
  cudaError_t error = cudaSuccess;
  cudaLaunchHostFunc(stream, CallTheApi, &error);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(error, cudaErrorNotPermitted);
}

TEST_F(StreamsTest, AHostFunctionNeedNotBeWaitedForByTheApi) {
  const Stream stream;
  const DeviceArray<float> x(std::vector<float>{0});
  std::promise<void> told;
  SANGAM_LAUNCH(AddOne, 1, 1, 0, stream, x.data(), x.data(), 1);
  cudaLaunchHostFunc(
      stream, [](void* told) { static_cast<std::promise<void>*>(told)->set_value(); }, &told);
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(x.Values()[0], 1);
}

TEST_F(StreamsTest, AStreamHoldsABoundedNumberOfOperations) {
  const Stream stream;
  const DeviceArray<float> x(std::vector<float>(1, 0));
  for (int i = 0; i < 3000; ++i) {
    SANGAM_LAUNCH(AddOne, 1, 1, 0, stream, x.data(), x.data(), 1);
    ASSERT_LE(PendingOperations(), 1024u);
  }
  cudaStreamSynchronize(stream);
  EXPECT_EQ(x.Values()[0], 3000);
}

TEST_F(StreamsTest, ADestroyedStreamFinishesItsWork) {
  const DeviceArray<float> x(50);
  {
    const Stream stream;
    FillWith(x, 1, stream);
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_THAT(x.Values(), Each(1));
}

TEST_F(StreamsTest, EventsMeasureTime) {
  const Stream stream;
  const DeviceArray<float> x(50);
  const Event start(cudaEventDefault), end(cudaEventDefault), untimed;
  cudaEventRecord(start, stream);
  FillWith(x, 1, stream);
  cudaEventRecord(end, stream);
  cudaEventRecord(untimed, stream);
  cudaEventSynchronize(untimed);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, untimed), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamsTest, RefusesHandlesThatAreGone) {
  cudaStream_t stream;
  cudaEvent_t event;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
}

// Several threads, each with a stream, and one that waits for the events of all.
TEST_F(StreamsTest, ThreadsWorkSideBySide) {
  constexpr int kThreads = 4, kRounds = 50;
  std::vector<DeviceArray<float>*> arrays;
  for (int i = 0; i < kThreads; ++i)
    arrays.push_back(new DeviceArray<float>(std::vector<float>(50, 0)));
  std::vector<Event> events(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const Stream stream;
      for (int round = 0; round < kRounds; ++round) {
        float* const x = arrays[i]->data();
        SANGAM_LAUNCH(AddOne, 1, 64, 0, stream, x, x, 50);
        cudaEventRecord(events[i], stream);
        if (round % 3 == 0) cudaStreamWaitEvent(stream, events[(i + 1) % kThreads]);
        if (round % 7 == 0) cudaStreamSynchronize(stream);
      }
      cudaEventSynchronize(events[i]);
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto* array : arrays) {
    EXPECT_THAT(array->Values(), Each(kRounds));
    delete array;
  }
}

}  // namespace
}  // namespace cuda_on_cpu::tests
