#include "worker/backend/cuda/cuda_backend.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "cuda_on_cpu/control.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"
#include "worker/backend/cuda/device_memory.h"
#include "worker/backend/precision.h"

// On the stand-in for CUDA, which can be made to fail.
namespace sangam {
namespace {

using ::sangam::testing::DeviceMatrix;
using ::sangam::testing::RandomFloats;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

// A device fails for the whole process: each test leaves it as new.
class CudaBackendTest : public ::testing::Test {
 protected:
  void TearDown() override {
    cudaDeviceReset();
    cudaGetLastError();
  }

  static std::unique_ptr<Backend> New(Precision precision = Precision::kFp32) {
    auto backend = CreateCudaBackend(0, precision);
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }
};

TEST_F(CudaBackendTest, ProgramsThatLinkItHaveIt) {
  EXPECT_THAT(BackendNames(), Contains("cuda"));
  const auto backend = CreateBackend("cuda");
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->name(), "cuda");
  EXPECT_FALSE((*backend)->uses_host_memory());
  const auto device = DescribeBackend("cuda");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_NE(device->name, "");
  EXPECT_GT(device->memory_bytes, 0u);
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kTf32}) {
    EXPECT_TRUE(IsNative("cuda", precision));
    EXPECT_FALSE(IsNative("cuda", precision, 99));
  }
}

TEST_F(CudaBackendTest, ADeviceThatIsNotThereIsAnError) {
  const absl::Status status = CreateBackend("cuda", Precision::kFp32, 7).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cuda device 7"));
}

// A kernel that cannot be started harms nothing but itself.
TEST_F(CudaBackendTest, AFailedLaunchIsOver) {
  const auto backend = New();
  const DeviceMatrix x(backend.get(), 2, 3, RandomFloats(6, 1));
  const DeviceMatrix sum(backend.get(), 2, 3);
  cuda_on_cpu::FailNextLaunch("", cudaErrorInvalidConfiguration);
  const absl::Status status = backend->Add(x.view(), x.view(), sum.view());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cuda: add: "), HasSubstr("cudaErrorInvalidConfiguration")));
  EXPECT_TRUE(backend->Add(x.view(), x.view(), sum.view()).ok());
  EXPECT_TRUE(backend->Synchronize().ok());
}

// What a kernel does wrong shows up later, names what it may have been, and stays.
TEST_F(CudaBackendTest, AFailedDeviceFailsAllThatIsAskedForFromThenOn) {
  const auto backend = New();
  const DeviceMatrix x(backend.get(), 2, 3, RandomFloats(6, 1));
  const DeviceMatrix y(backend.get(), 2, 3);
  auto loss = backend->SquaredError(x.view(), std::vector<float>(6, 1.0f).data(), nullptr);
  ASSERT_TRUE(loss.ok()) << loss.status();
  ASSERT_TRUE(backend->Synchronize().ok());
  cuda_on_cpu::FailNextLaunch("", cudaErrorIllegalAddress);
  absl::Status status = backend->Activate(Activation::kTanh, x.view(), y.view());
  if (status.ok()) status = backend->AddScaled(2.0f, y.view(), false, x.view());
  if (status.ok()) status = backend->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cudaErrorIllegalAddress"), HasSubstr("after: activate"),
                    HasSubstr("start anew")));

  EXPECT_EQ(backend->Add(x.view(), x.view(), y.view()), status);
  EXPECT_EQ(backend->Synchronize(), status);
  EXPECT_EQ(backend->Record().status(), status);
  EXPECT_EQ(backend->Allocate(10).status(), status);
  std::vector<float> host(6);
  EXPECT_EQ(backend->DownloadBeside(x.view(), host.data()).status(), status);
  EXPECT_EQ((*loss)->Get().status(), status);

  // Others hear of it too, at once.
  EXPECT_FALSE(CreateBackend("cuda").ok());
}

TEST_F(CudaBackendTest, AnEventOfAFailedDeviceFails) {
  const auto backend = New();
  const DeviceMatrix x(backend.get(), 2, 3, RandomFloats(6, 1));
  cuda_on_cpu::FailNextLaunch("", cudaErrorLaunchFailure);
  absl::Status status = backend->Fill(2.0f, x.view());
  const auto event = backend->Record();
  if (event.ok()) {
    std::thread([&] { status = (*event)->Wait(); }).join();
  } else {
    status = event.status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorLaunchFailure"));
}

// Each call twice: once the shapes are known nothing is allocated.
TEST_F(CudaBackendTest, ASecondStepAllocatesNothing) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kTf32}) {
    const auto backend = New(precision);
    const DeviceMatrix x(backend.get(), 16, 24, RandomFloats(16 * 24, 1), 1);
    const DeviceMatrix w(backend.get(), 8, 24, RandomFloats(8 * 24, 2), 3);
    const DeviceMatrix bias(backend.get(), 1, 8, RandomFloats(8, 3), 1);
    const DeviceMatrix y(backend.get(), 16, 8);
    const DeviceMatrix qkv(backend.get(), 16, 24);
    const DeviceMatrix log_sum(backend.get(), 16, 2);
    const DeviceMatrix sums(backend.get(), 1, 24);
    const WindowShape window = {{4, 3, 2}, {3, 3, 1, 1}, 5};
    const DeviceMatrix kernel(backend.get(), 5, 18, RandomFloats(5 * 18, 4));
    const DeviceMatrix filtered(backend.get(), 16, 60);
    std::vector<float> host(16 * 8);
    const std::vector<uint32_t> labels(16, 3);
    const auto step = [&] {
      GemmArguments product;
      product.a = x.view();
      product.b = w.view();
      product.transpose_b = true;
      product.c = y.view();
      product.epilogue = Epilogue::kBiasRelu;
      product.bias = bias.view();
      ASSERT_TRUE(backend->Gemm(product).ok());
      ASSERT_TRUE(backend->Rotate({8, 2}, x.view(), qkv.view()).ok());
      ASSERT_TRUE(backend->CausalAttention({8, 2}, qkv.view(), y.view(), log_sum.view()).ok());
      ASSERT_TRUE(backend->SumRows(x.view(), true, sums.view()).ok());
      ASSERT_TRUE(
          backend->Conv2d(window, x.view(), kernel.view(), Epilogue::kNone, {}, filtered.view())
              .ok());
      const auto loss = backend->SoftmaxCrossEntropy(y.view(), labels.data(), nullptr);
      ASSERT_TRUE(loss.ok());
      ASSERT_TRUE((*loss)->Get().ok());
      const auto down = backend->DownloadBeside(y.view(), host.data());
      ASSERT_TRUE(down.ok());
      ASSERT_TRUE((*down)->Wait().ok());
      ASSERT_TRUE(backend->Synchronize().ok());
    };
    // The places of labels are used in turn.
    for (int i = 0; i < 4; ++i) step();
    const int64_t before = NumCudaAllocations();
    for (int i = 0; i < 10; ++i) step();
    EXPECT_EQ(NumCudaAllocations(), before);
  }
}

TEST_F(CudaBackendTest, WhatIsReservedIsOneAllocation) {
  const auto backend = New();
  ASSERT_TRUE(backend->Reserve(10 * Backend::kAllocationElements).ok());
  const int64_t before = NumCudaAllocations();
  std::vector<std::unique_ptr<BackendMemory>> pieces;
  for (int i = 0; i < 10; ++i) {
    auto memory = backend->Allocate(i + 1);
    ASSERT_TRUE(memory.ok()) << memory.status();
    pieces.push_back(*std::move(memory));
  }
  EXPECT_EQ(NumCudaAllocations(), before);
  auto one_more = backend->Allocate(1);
  ASSERT_TRUE(one_more.ok()) << one_more.status();
  EXPECT_EQ(NumCudaAllocations(), before + 1);
}

TEST_F(CudaBackendTest, MissingMemoryForScratchIsAnErrorAndAllGoesOn) {
  const auto backend = New();
  const DeviceMatrix x(backend.get(), 64, 64, RandomFloats(64 * 64, 1), 1);
  const DeviceMatrix c(backend.get(), 64, 64);
  GemmArguments product;
  product.a = x.view();  // not aligned: is copied
  product.b = c.view();
  const DeviceMatrix out(backend.get(), 64, 64);
  product.c = out.view();
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  cuda_on_cpu::SetDeviceMemory(total - free + 1000);
  const absl::Status status = backend->Gemm(product);
  cuda_on_cpu::SetDeviceMemory(total);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no memory for 16384 bytes"));
  EXPECT_TRUE(backend->Gemm(product).ok());
  EXPECT_TRUE(backend->Synchronize().ok());
}

}  // namespace
}  // namespace sangam
