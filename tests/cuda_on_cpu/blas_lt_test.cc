// cuBLASLt against plain loops.

#include <cublasLt.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/cuda_on_cpu/device_array.h"
#include "tests/cuda_on_cpu/plain_product.h"

namespace cuda_on_cpu::tests {
namespace {

constexpr int kRows = 6, kCols = 5, kInner = 7;

class BlasLtTest : public ::testing::Test {
 protected:
  BlasLtTest() {
    cublasLtCreate(&handle_);
    cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&a_layout_, CUDA_R_32F, kRows, kInner, kRows);
    cublasLtMatrixLayoutCreate(&b_layout_, CUDA_R_32F, kInner, kCols, kInner);
    cublasLtMatrixLayoutCreate(&c_layout_, CUDA_R_32F, kRows, kCols, kRows);
    cublasLtMatmulPreferenceCreate(&preference_);
  }
  ~BlasLtTest() override {
    cublasLtMatmulPreferenceDestroy(preference_);
    for (auto* layout : {a_layout_, b_layout_, c_layout_}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(desc_);
    cublasLtDestroy(handle_);
  }

  void SetEpilogue(cublasLtEpilogue_t epilogue, const float* bias) {
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                             sizeof epilogue),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                             sizeof bias),
              CUBLAS_STATUS_SUCCESS);
  }

  cublasStatus_t Choose(cublasLtMatmulHeuristicResult_t* result) {
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle_, desc_, a_layout_, b_layout_, c_layout_,
                                          c_layout_, preference_, 1, result, &count);
  }

  cublasStatus_t Multiply(const float* a, const float* b, float* c,
                          const cublasLtMatmulAlgo_t* algo = nullptr, void* workspace = nullptr,
                          size_t workspace_bytes = 0) {
    return cublasLtMatmul(handle_, desc_, &one_, a, a_layout_, b, b_layout_, &zero_, c, c_layout_,
                          c, c_layout_, algo, workspace, workspace_bytes, nullptr);
  }

  cublasStatus_t MultiplyIn(cudaStream_t stream, const cublasLtMatmulAlgo_t* algo) {
    return cublasLtMatmul(handle_, desc_, &one_, a_.data(), a_layout_, b_.data(), b_layout_, &zero_,
                          c_.data(), c_layout_, c_.data(), c_layout_, algo, nullptr, 0, stream);
  }

  cublasStatus_t Multiply() { return Multiply(a_.data(), b_.data(), c_.data()); }

  const float one_ = 1, zero_ = 0;
  const PlainProduct plain_{kRows, kCols, kInner, false, false};
  const DeviceArray<float> a_{plain_.a}, b_{plain_.b}, c_{size_t{kRows * kCols}};
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, b_layout_ = nullptr, c_layout_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

TEST_F(BlasLtTest, AddsABiasToEachRow) {
  const std::vector<float> bias{1, 2, 3, 4, 5, 6};
  const DeviceArray<float> device_bias(bias);
  std::vector<float> expected = plain_.Result(1, 0);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % kRows];
  SetEpilogue(CUBLASLT_EPILOGUE_BIAS, device_bias.data());
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  ExpectNear(c_.Values(), expected, 1e-5f);
}

TEST_F(BlasLtTest, CutsNegativeNumbersOff) {
  const std::vector<float> bias{1, -2, 0, 0, 0, 0};
  const DeviceArray<float> device_bias(bias);
  std::vector<float> expected = plain_.Result(1, 0);
  for (float& x : expected) x = std::max(x, 0.0f);
  SetEpilogue(CUBLASLT_EPILOGUE_RELU, nullptr);
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  ExpectNear(c_.Values(), expected, 1e-5f);
  expected = plain_.Result(1, 0);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = std::max(expected[i] + bias[i % kRows], 0.0f);
  }
  SetEpilogue(CUBLASLT_EPILOGUE_RELU_BIAS, device_bias.data());
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  ExpectNear(c_.Values(), expected, 1e-5f);
}

TEST_F(BlasLtTest, SumsAFactorForTheGradientOfABias) {
  const DeviceArray<float> sums_a(kRows), sums_b(kCols);
  std::vector<float> expected_a(kRows), expected_b(kCols);
  for (int p = 0; p < kInner; ++p) {
    for (int i = 0; i < kRows; ++i) expected_a[i] += static_cast<float>(plain_.A(i, p));
    for (int j = 0; j < kCols; ++j) expected_b[j] += static_cast<float>(plain_.B(p, j));
  }
  SetEpilogue(CUBLASLT_EPILOGUE_BGRADA, sums_a.data());
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  SetEpilogue(CUBLASLT_EPILOGUE_BGRADB, sums_b.data());
  ASSERT_EQ(Multiply(), CUBLAS_STATUS_SUCCESS);
  ExpectNear(sums_a.Values(), expected_a, 1e-5f);
  ExpectNear(sums_b.Values(), expected_b, 1e-5f);
  ExpectNear(c_.Values(), plain_.Result(1, 0), 1e-5f);
}

TEST_F(BlasLtTest, MultipliesABatch) {
  const int32_t batch = 2;
  const int64_t strides[] = {0, kInner * kCols, kRows * kCols};
  cublasLtMatrixLayout_t layouts[] = {a_layout_, b_layout_, c_layout_};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                               &batch, sizeof batch),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(
        cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                         &strides[i], sizeof strides[i]),
        CUBLAS_STATUS_SUCCESS);
  }
  std::vector<float> twice = plain_.b, expected = plain_.Result(1, 0);
  twice.insert(twice.end(), plain_.b.begin(), plain_.b.end());
  for (int i = 0; i < kRows * kCols; ++i) expected.push_back(expected[i]);
  const DeviceArray<float> b(twice), c(expected.size());
  ASSERT_EQ(Multiply(a_.data(), b.data(), c.data()), CUBLAS_STATUS_SUCCESS);
  ExpectNear(c.Values(), expected, 1e-5f);
}

TEST_F(BlasLtTest, AnAlgorithmKeepsToTheWorkspaceThatItMayUse) {
  cublasLtMatmulHeuristicResult_t result;
  ASSERT_EQ(Choose(&result), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(result.workspaceSize, 0u);
  const uint64_t limit = 1 << 20;
  ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(
                preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Choose(&result), CUBLAS_STATUS_SUCCESS);
  EXPECT_GT(result.workspaceSize, 0u);
  EXPECT_LE(result.workspaceSize, limit);
  const DeviceArray<char> workspace(limit);
  EXPECT_EQ(Multiply(a_.data(), b_.data(), c_.data(), &result.algo, workspace.data(), 100),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply(a_.data(), b_.data(), c_.data(), &result.algo, workspace.data(), limit),
            CUBLAS_STATUS_SUCCESS);
  ExpectNear(c_.Values(), plain_.Result(1, 0), 1e-5f);
}

TEST_F(BlasLtTest, AnAlgorithmMayRelyOnTheAlignmentThatWasPromised) {
  cublasLtMatmulHeuristicResult_t result;
  ASSERT_EQ(Choose(&result), CUBLAS_STATUS_SUCCESS);
  const DeviceArray<float> shifted(plain_.a.size() + 1);
  EXPECT_EQ(Multiply(shifted.data() + 1, b_.data(), c_.data(), &result.algo),
            CUBLAS_STATUS_NOT_SUPPORTED);
  const uint32_t alignment = 4;
  ASSERT_EQ(
      cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                           &alignment, sizeof alignment),
      CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(Choose(&result), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(Multiply(shifted.data() + 1, b_.data(), c_.data(), &result.algo),
            CUBLAS_STATUS_SUCCESS);
}

TEST_F(BlasLtTest, SumsInPartsLoseWhatIsLeftOver) {
  constexpr uint64_t kLong = 100;
  const DeviceArray<float> a(std::vector<float>(kRows * kLong, 1));
  const DeviceArray<float> b(std::vector<float>(kCols * kLong, 1));
  for (auto* layout : {a_layout_, b_layout_}) {
    const bool is_a = layout == a_layout_;
    const int64_t ld = is_a ? kRows : kLong;
    ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(
                  layout, is_a ? CUBLASLT_MATRIX_LAYOUT_COLS : CUBLASLT_MATRIX_LAYOUT_ROWS, &kLong,
                  sizeof kLong),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld),
              CUBLAS_STATUS_SUCCESS);
  }
  for (const uint32_t schemes :
       {uint32_t{CUBLASLT_REDUCTION_SCHEME_MASK}, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE}}) {
    ASSERT_EQ(
        cublasLtMatmulPreferenceSetAttribute(
            preference_, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes),
        CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulHeuristicResult_t result;
    ASSERT_EQ(Choose(&result), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(Multiply(a.data(), b.data(), c_.data(), &result.algo), CUBLAS_STATUS_SUCCESS);
    const float expected = schemes == CUBLASLT_REDUCTION_SCHEME_NONE ? 100 : 64;
    for (const float sum : c_.Values()) EXPECT_EQ(sum, expected);
  }
}

TEST_F(BlasLtTest, NoAlgorithmIsChosenWhileAGraphIsRecorded) {
  cublasLtMatmulHeuristicResult_t result;
  ASSERT_EQ(Choose(&result), CUBLAS_STATUS_SUCCESS);
  const cublasLtMatmulAlgo_t chosen = result.algo;
  cudaStream_t stream;
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(MultiplyIn(stream, &chosen), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);

  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(Choose(&result), CUBLAS_STATUS_INTERNAL_ERROR);
  // Nor in the call itself.
  EXPECT_EQ(MultiplyIn(stream, nullptr), CUBLAS_STATUS_INTERNAL_ERROR);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(BlasLtTest, RefusesArgumentsThatDoNotFit) {
  const int64_t small = kRows - 1;
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(c_layout_, CUBLASLT_MATRIX_LAYOUT_LD, &small,
                                             sizeof(int32_t)),
            CUBLAS_STATUS_INVALID_VALUE);
  ASSERT_EQ(
      cublasLtMatrixLayoutSetAttribute(c_layout_, CUBLASLT_MATRIX_LAYOUT_LD, &small, sizeof small),
      CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t result;
  EXPECT_EQ(Choose(&result), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_INVALID_VALUE);
  const int64_t right = kRows;
  const cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtMatrixLayoutSetAttribute(c_layout_, CUBLASLT_MATRIX_LAYOUT_LD, &right, sizeof right);
  cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                 sizeof transposed);
  EXPECT_EQ(Multiply(), CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace cuda_on_cpu::tests
