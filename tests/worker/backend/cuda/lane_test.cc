#include "worker/backend/cuda/lane.h"

#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "cuda_on_cpu/control.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/backend/cuda/elementwise.h"
#include "worker/backend/device_lost.h"

namespace sangam {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CudaLaneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto lane = CudaLane::Create(0);
    ASSERT_TRUE(lane.ok()) << lane.status();
    lane_ = *std::move(lane);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&numbers_), 100 * sizeof(float)), cudaSuccess);
  }

  void TearDown() override {
    lane_ = nullptr;
    cudaFree(numbers_);
    cudaDeviceReset();
    cudaGetLastError();
  }

  absl::Status Fill(const char* operation) {
    return lane_->Run(operation, [&](cudaStream_t stream) {
      return cuda_kernels::Fill(stream, 2.0f, {numbers_, 10, 10});
    });
  }

  std::unique_ptr<CudaLane> lane_;
  float* numbers_ = nullptr;
};

TEST_F(CudaLaneTest, APointIsAfterTheWorkBeforeIt) {
  std::vector<float> host(100, 0.0f);
  ASSERT_TRUE(Fill("fill").ok());
  ASSERT_EQ(cudaMemcpyAsync(host.data(), numbers_, 100 * sizeof(float), cudaMemcpyDeviceToHost,
                            lane_->compute()),
            cudaSuccess);
  auto point = lane_->Record(lane_->compute());
  ASSERT_TRUE(point.ok()) << point.status();
  std::thread([&] { EXPECT_TRUE((*point)->Wait().ok()); }).join();
  EXPECT_EQ(host, std::vector<float>(100, 2.0f));
}

TEST_F(CudaLaneTest, EventsAreUsedAgain) {
  cudaEvent_t first = nullptr;
  for (int i = 0; i < 3; ++i) {
    auto point = lane_->Record(lane_->compute());
    ASSERT_TRUE(point.ok()) << point.status();
    if (first == nullptr) first = (*point)->event();
    EXPECT_EQ((*point)->event(), first);
    EXPECT_TRUE((*point)->Wait().ok());
  }
}

TEST_F(CudaLaneTest, AFaultNamesWhatWasAskedForSinceTheLastGoodPoint) {
  ASSERT_TRUE(Fill("long ago").ok());
  ASSERT_TRUE(lane_->Synchronize().ok());
  cuda_on_cpu::FailNextLaunch("", cudaErrorIllegalAddress);
  absl::Status status = Fill("layer norm");
  if (status.ok()) status = Fill("gemm");
  if (status.ok()) status = lane_->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("after: layer norm"), HasSubstr("cudaErrorIllegalAddress"),
                    Not(HasSubstr("long ago"))));
  EXPECT_TRUE(IsDeviceLost(status));
  EXPECT_EQ(lane_->failure(), status);
  EXPECT_EQ(Fill("add"), status);
  EXPECT_EQ(lane_->Record(lane_->upload()).status(), status);
}

TEST_F(CudaLaneTest, ACallThatWasWrongByItselfIsOver) {
  ASSERT_TRUE(lane_->Begin("x").ok());
  const absl::Status status = lane_->Check(cudaErrorInvalidConfiguration, "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(IsDeviceLost(status));
  EXPECT_TRUE(lane_->failure().ok());
  EXPECT_TRUE(Fill("fill").ok());
}

TEST_F(CudaLaneTest, ADeviceThatIsNotThereIsAnError) {
  EXPECT_EQ(CudaLane::Create(3).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace sangam
