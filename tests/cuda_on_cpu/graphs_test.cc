// Capture of streams into graphs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda_on_cpu/device_array.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "worker/backend/cuda/launch.h"

namespace cuda_on_cpu::tests {
namespace {

using ::testing::Each;

__global__ void Add(float* x, float value) { x[threadIdx.x] += value; }

class GraphsTest : public ::testing::Test {
 protected:
  GraphsTest() {
    cudaDeviceReset();
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
  }
  ~GraphsTest() override {
    cudaStreamDestroy(stream_);
    cudaStreamDestroy(other_);
    cudaEventDestroy(event_);
  }

  cudaStream_t stream_, other_;
  cudaEvent_t event_;
  cudaGraph_t graph_ = nullptr;
};

TEST_F(GraphsTest, WhatIsCapturedRunsWhenTheGraphIsLaunched) {
  const DeviceArray<float> x(std::vector<float>(8, 0));
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaStreamCaptureStatus status;
  ASSERT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  SANGAM_LAUNCH(Add, 1, 8, 0, stream_, x.data(), 1.0f);
  SANGAM_LAUNCH(Add, 1, 8, 0, stream_, x.data(), 2.0f);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaSuccess);
  cudaStreamSynchronize(stream_);
  EXPECT_THAT(x.Values(), Each(0));

  cudaGraphExec_t exec;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph_), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_THAT(x.Values(), Each(0));
  cudaStreamSynchronize(stream_);
  EXPECT_THAT(x.Values(), Each(6));
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(GraphsTest, EventsDrawOtherStreamsIn) {
  const DeviceArray<float> x(std::vector<float>(8, 0));
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  SANGAM_LAUNCH(Add, 1, 8, 0, stream_, x.data(), 1.0f);
  cudaEventRecord(event_, stream_);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_), cudaSuccess);
  SANGAM_LAUNCH(Add, 1, 8, 0, other_, x.data(), 2.0f);
  cudaEventRecord(event_, other_);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, event_), cudaSuccess);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaSuccess);
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph_), cudaSuccess);
  cudaGraphLaunch(exec, nullptr);
  EXPECT_THAT(x.Values(), Each(3));
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph_);
}

TEST_F(GraphsTest, WorkOfAnotherStreamMustBeWaitedFor) {
  const DeviceArray<float> x(std::vector<float>(8, 0));
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaEventRecord(event_, stream_);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_), cudaSuccess);
  SANGAM_LAUNCH(Add, 1, 8, 0, other_, x.data(), 2.0f);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureUnjoined);
  // Both are ordinary streams again.
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
}

TEST_F(GraphsTest, AllocationsAndWaitsSpoilACapture) {
  void* pointer;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&pointer, 10), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);

  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);

  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&pointer, 10), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaSuccess);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph_), cudaSuccess);
}

TEST_F(GraphsTest, AnEventOfWorkOutsideCannotBeWaitedFor) {
  cudaEventRecord(event_, other_);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event_), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(GraphsTest, CaptureNeedsAStream) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorIllegalState);
}

}  // namespace
}  // namespace cuda_on_cpu::tests
