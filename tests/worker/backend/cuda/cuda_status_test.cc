#include "worker/backend/cuda/cuda_status.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::HasSubstr;

TEST(CudaStatusTest, ErrorsNameWhatGaveThem) {
  EXPECT_TRUE(CudaStatus(cudaSuccess, "add").ok());
  const absl::Status status = CudaStatus(cudaErrorIllegalAddress, "layer norm");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cuda: layer norm: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("(cudaErrorIllegalAddress)"));
  EXPECT_EQ(CudaStatus(cudaErrorMemoryAllocation, "x").code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CudaStatusTest, AnErrorIsTakenFromWhoAsksNext) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, SIZE_MAX / 2);
  ASSERT_NE(error, cudaSuccess);
  EXPECT_FALSE(CudaStatus(error, "x").ok());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(CudaStatusTest, CublasErrorsNameWhatGaveThem) {
  EXPECT_TRUE(CublasStatus(CUBLAS_STATUS_SUCCESS, "gemm").ok());
  const absl::Status status = CublasStatus(CUBLAS_STATUS_NOT_SUPPORTED, "gemm");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cuBLAS: gemm: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("CUBLAS_STATUS_NOT_SUPPORTED"));
  EXPECT_EQ(CublasStatus(CUBLAS_STATUS_ALLOC_FAILED, "gemm").code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CudaStatusTest, MissingMemoryIsToldInNumbers) {
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  const absl::Status status = NoDeviceMemory(123456789);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no memory for 123456789 bytes: device 0 has " + std::to_string(free) +
                        " bytes free of " + std::to_string(total)));
}

TEST(CudaStatusTest, WhatWasWrongWithACallAloneIsOver) {
  EXPECT_FALSE(EndsTheDevice(cudaSuccess));
  EXPECT_FALSE(EndsTheDevice(cudaErrorMemoryAllocation));
  EXPECT_FALSE(EndsTheDevice(cudaErrorInvalidConfiguration));
  EXPECT_TRUE(EndsTheDevice(cudaErrorIllegalAddress));
  EXPECT_TRUE(EndsTheDevice(cudaErrorLaunchFailure));
  EXPECT_TRUE(EndsTheDevice(cudaErrorMpsClientTerminated));
  EXPECT_TRUE(EndsTheDevice(cudaErrorECCUncorrectable));
}

}  // namespace
}  // namespace sangam
