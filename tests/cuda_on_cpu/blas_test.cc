// cuBLAS against plain loops.

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/cuda_on_cpu/device_array.h"
#include "tests/cuda_on_cpu/include/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/plain_product.h"

namespace cuda_on_cpu::tests {
namespace {

class BlasTest : public ::testing::Test {
 protected:
  BlasTest() {
    cudaDeviceReset();
    cublasCreate(&handle_);
  }
  ~BlasTest() override { cublasDestroy(handle_); }

  cublasHandle_t handle_;
  const float one_ = 1, zero_ = 0, half_ = 0.5f;
};

TEST_F(BlasTest, MultipliesInEveryOrientation) {
  for (int m : {1, 5, 40}) {
    for (int n : {1, 7, 33}) {
      for (int k : {1, 6, 300}) {
        for (int transposes = 0; transposes < 4; ++transposes) {
          const PlainProduct plain(m, n, k, transposes % 2 != 0, transposes / 2 != 0);
          const DeviceArray<float> a(plain.a), b(plain.b), c(plain.c);
          ASSERT_EQ(cublasSgemm(handle_, transposes % 2 != 0 ? CUBLAS_OP_T : CUBLAS_OP_N,
                                transposes / 2 != 0 ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &half_,
                                a.data(), plain.lda, b.data(), plain.ldb, &one_, c.data(), m),
                    CUBLAS_STATUS_SUCCESS);
          ExpectNear(c.Values(), plain.Result(0.5f, 1), 1e-5f * static_cast<float>(k));
        }
      }
    }
  }
}

TEST_F(BlasTest, WithBetaZeroOldValuesAreNotRead) {
  const PlainProduct plain(4, 5, 6, false, false);
  const DeviceArray<float> a(plain.a), b(plain.b), c(20);  // garbage
  ASSERT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 4, 5, 6, &one_, a.data(), 4, b.data(), 6,
                        &zero_, c.data(), 4),
            CUBLAS_STATUS_SUCCESS);
  ExpectNear(c.Values(), plain.Result(1, 0), 1e-5f);
}

TEST_F(BlasTest, MultipliesABatch) {
  const PlainProduct first(4, 5, 6, false, false), second(4, 5, 6, false, false, 99);
  std::vector<float> a(first.a), b(first.b);
  a.insert(a.end(), second.a.begin(), second.a.end());
  b.insert(b.end(), second.b.begin(), second.b.end());
  const DeviceArray<float> device_a(a), device_b(b), c(40);
  ASSERT_EQ(
      cublasSgemmStridedBatched(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 4, 5, 6, &one_, device_a.data(),
                                4, 24, device_b.data(), 6, 30, &zero_, c.data(), 4, 20, 2),
      CUBLAS_STATUS_SUCCESS);
  std::vector<float> expected = first.Result(1, 0), more = second.Result(1, 0);
  expected.insert(expected.end(), more.begin(), more.end());
  ExpectNear(c.Values(), expected, 1e-5f);
}

TEST_F(BlasTest, TakesBfloat16Factors) {
  PlainProduct plain(8, 9, 16, false, false);
  std::vector<__nv_bfloat16> a, b;
  for (float& x : plain.a) {
    a.push_back(__float2bfloat16_rn(x));
    x = __bfloat162float(a.back());
  }
  for (float& x : plain.b) {
    b.push_back(__float2bfloat16_rn(x));
    x = __bfloat162float(b.back());
  }
  const DeviceArray<__nv_bfloat16> device_a(a), device_b(b);
  const DeviceArray<float> c(72);
  ASSERT_EQ(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 8, 9, 16, &one_, device_a.data(),
                         CUDA_R_16BF, 8, device_b.data(), CUDA_R_16BF, 16, &zero_, c.data(),
                         CUDA_R_32F, 8, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            CUBLAS_STATUS_SUCCESS);
  ExpectNear(c.Values(), plain.Result(1, 0), 1e-5f);
}

TEST_F(BlasTest, Tf32KeepsTenBits) {
  // 1 + 2^-10 stays, 1 + 2^-11 is halfway and goes to the even 1, 1 + 3 * 2^-11 goes up.
  const DeviceArray<float> a(std::vector<float>{1 + 0x1p-10f, 1 + 0x1p-11f, 1 + 0x1.8p-10f});
  const DeviceArray<float> b(std::vector<float>{1}), c(3);
  const auto multiply = [&](cublasComputeType_t compute) {
    EXPECT_EQ(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 3, 1, 1, &one_, a.data(), CUDA_R_32F,
                           3, b.data(), CUDA_R_32F, 1, &zero_, c.data(), CUDA_R_32F, 3, compute,
                           CUBLAS_GEMM_DEFAULT),
              CUBLAS_STATUS_SUCCESS);
    return c.Values();
  };
  const std::vector<float> rounded{1 + 0x1p-10f, 1, 1 + 0x1p-9f};
  EXPECT_EQ(multiply(CUBLAS_COMPUTE_32F_FAST_TF32), rounded);
  EXPECT_EQ(multiply(CUBLAS_COMPUTE_32F), a.Values());
  ASSERT_EQ(cublasSetMathMode(handle_, CUBLAS_TF32_TENSOR_OP_MATH), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(CUBLAS_COMPUTE_32F), rounded);
}

TEST_F(BlasTest, FactorsMayLieOnTheDevice) {
  const PlainProduct plain(4, 5, 6, false, false);
  const DeviceArray<float> a(plain.a), b(plain.b), c(20), factors(std::vector<float>{2, 0});
  ASSERT_EQ(cublasSetPointerMode(handle_, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 4, 5, 6, factors.data(), a.data(), 4,
                        b.data(), 6, factors.data() + 1, c.data(), 4),
            CUBLAS_STATUS_SUCCESS);
  ExpectNear(c.Values(), plain.Result(2, 0), 1e-5f);
}

TEST_F(BlasTest, WorksInItsStreamAndLeavesGarbageInTheWorkspace) {
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  const DeviceArray<float> workspace(std::vector<float>(1 << 16, 1)), x(std::vector<float>{2}),
      c(1);
  ASSERT_EQ(cublasSetStream(handle_, stream), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSetWorkspace(handle_, workspace.data(), workspace.bytes()),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one_, x.data(), 1, x.data(), 1,
                        &zero_, c.data(), 1),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_TRUE(std::isnan(c.Values()[0]));
  EXPECT_EQ(workspace.Values()[0], 1);
  cudaStreamSynchronize(stream);
  EXPECT_EQ(c.Values()[0], 4);
  EXPECT_TRUE(std::isnan(workspace.Values()[0]));
  cudaStreamDestroy(stream);
}

TEST_F(BlasTest, RefusesArgumentsThatDoNotFit) {
  const DeviceArray<float> x(1000);
  const auto multiply = [&](int m, int n, int k, int lda, int ldb, int ldc,
                            cublasOperation_t of_a) {
    return cublasSgemm(handle_, of_a, CUBLAS_OP_N, m, n, k, &one_, x.data(), lda, x.data(), ldb,
                       &zero_, x.data(), ldc);
  };
  EXPECT_EQ(multiply(4, 5, 6, 4, 6, 4, CUBLAS_OP_N), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(4, 5, 6, 3, 6, 4, CUBLAS_OP_N), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(4, 5, 6, 4, 6, 4, CUBLAS_OP_T), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(4, 5, 6, 4, 5, 4, CUBLAS_OP_N), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(4, 5, 6, 4, 6, 3, CUBLAS_OP_N), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(-1, 5, 6, 4, 6, 4, CUBLAS_OP_N), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(multiply(0, 5, 6, 4, 6, 4, CUBLAS_OP_N), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSgemm(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one_, x.data(), 1, x.data(), 1,
                        &zero_, x.data(), 1),
            CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_F(BlasTest, AfterAFaultOfTheDeviceNothingWorks) {
  const DeviceArray<float> x(10);
  FailNextLaunch("", cudaErrorIllegalAddress);
  SetStreamMode(StreamMode::kEager);
  LaunchKernel(
      "Anything", +[] {}, 1, 1, 0, nullptr);
  SetStreamMode(StreamMode::kLazy);
  EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one_, x.data(), 1, x.data(), 1,
                        &zero_, x.data(), 1),
            CUBLAS_STATUS_EXECUTION_FAILED);
  cudaDeviceReset();
}

TEST(BlasDeathTest, OperandsMustLieInDeviceMemory) {
  cudaDeviceReset();
  cublasHandle_t handle;
  ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  const DeviceArray<float> x(16);
  const std::vector<float> host(16);
  const float one = 1;
  EXPECT_DEATH(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, x.data(), 4,
                           host.data(), 4, &one, x.data(), 4),
               "cublasSgemm: b is .* the 64 bytes from there are not all in device memory");
  EXPECT_DEATH(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, x.data(), 5, x.data(),
                           4, &one, x.data(), 4),
               "cublasSgemm: a is .* the 76 bytes");
  cublasDestroy(handle);
}

}  // namespace
}  // namespace cuda_on_cpu::tests
