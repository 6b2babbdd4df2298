#include "worker/backend/cuda/products.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/cuda/cuda_backend.h"
#include "worker/backend/cuda/lane.h"
#include "worker/backend/precision.h"

namespace sangam {
namespace {

using ::sangam::testing::DeviceMatrix;
using ::sangam::testing::RandomFloats;

constexpr int64_t kM = 13;
constexpr int64_t kN = 9;
constexpr int64_t kK = 21;

// The offsets of the operands, in floats.
struct Offsets {
  int64_t a, b, c, bias;
};

class CudaProductsTest : public ::testing::TestWithParam<Precision> {
 protected:
  CudaProductsTest() : lane_(*CudaLane::Create(0)), backend_(*CreateCudaBackend(0)) {}

  std::vector<float> Multiply(CudaProducts* products, Epilogue epilogue, bool accumulate,
                              const Offsets& offsets) {
    const DeviceMatrix a(backend_.get(), kM, kK, RandomFloats(kM * kK, 1), offsets.a);
    const DeviceMatrix b(backend_.get(), kN, kK, RandomFloats(kN * kK, 2), offsets.b);
    const DeviceMatrix c(backend_.get(), kM, kN, RandomFloats(kM * kN, 3), offsets.c);
    const DeviceMatrix bias(backend_.get(), 1, kN, RandomFloats(kN, 4), offsets.bias);
    GemmArguments arguments;
    arguments.a = a.view();
    arguments.b = b.view();
    arguments.transpose_b = true;
    arguments.c = c.view();
    arguments.accumulate = accumulate;
    arguments.epilogue = epilogue;
    if (epilogue != Epilogue::kNone) arguments.bias = bias.view();
    EXPECT_TRUE(lane_->Begin("gemm").ok());
    const absl::Status status = products->Multiply(arguments);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(lane_->Synchronize().ok());
    return c.Read();
  }

  std::unique_ptr<CudaLane> lane_;
  std::unique_ptr<Backend> backend_;  // for the matrices
};

TEST_P(CudaProductsTest, BitsDoNotDependOnTheAddressOfAnyOperand) {
  const auto products = CudaProducts::Create(lane_.get(), GetParam());
  ASSERT_TRUE(products.ok()) << products.status();
  for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kBias, Epilogue::kBiasRelu}) {
    for (const bool accumulate : {false, true}) {
      if (accumulate && epilogue != Epilogue::kNone) continue;
      const std::vector<float> aligned =
          Multiply(products->get(), epilogue, accumulate, {0, 0, 0, 0});
      for (const Offsets& offsets :
           {Offsets{1, 0, 0, 0}, Offsets{0, 2, 0, 0}, Offsets{0, 0, 3, 0}, Offsets{0, 0, 0, 1},
            Offsets{4, 8, 4, 8}, Offsets{1, 2, 3, 5}}) {
        EXPECT_EQ(Multiply(products->get(), epilogue, accumulate, offsets), aligned);
      }
    }
  }
}

TEST_P(CudaProductsTest, BitsDoNotDependOnEarlierProducts) {
  const auto used = CudaProducts::Create(lane_.get(), GetParam());
  const auto fresh = CudaProducts::Create(lane_.get(), GetParam());
  ASSERT_TRUE(used.ok() && fresh.ok());
  Multiply(used->get(), Epilogue::kBias, false, {1, 1, 1, 1});
  const std::vector<float> first = Multiply(used->get(), Epilogue::kNone, true, {0, 0, 0, 0});
  EXPECT_EQ(Multiply(used->get(), Epilogue::kNone, true, {0, 0, 0, 0}), first);
  EXPECT_EQ(Multiply(fresh->get(), Epilogue::kNone, true, {0, 0, 0, 0}), first);
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaProductsTest,
                         ::testing::Values(Precision::kFp32, Precision::kBf16, Precision::kTf32));

}  // namespace
}  // namespace sangam
