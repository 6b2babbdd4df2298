#include "tests/worker/backend/conformance/op_cases.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"

namespace sangam::testing {
namespace {

using ::testing::Each;

void FreshMemoryIsZero(Backend* backend) {
  const auto memory = backend->Allocate(1000);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->size(), 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*memory)->data()) % 64, 0u);
  std::vector<float> values(1000, 1.0f);
  ASSERT_TRUE(backend->Download({(*memory)->data(), 10, 100}, values.data()).ok());
  ASSERT_TRUE(backend->Synchronize().ok());
  EXPECT_THAT(values, Each(0.0f));
}

void NoMemoryAtAllIsAllowed(Backend* backend) {
  const auto memory = backend->Allocate(0);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->size(), 0);
}

void TooMuchMemoryIsAnError(Backend* backend) {
  const auto memory = backend->Allocate(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted) << memory.status();
}

void UploadAndDownloadAreExact(Backend* backend) {
  const std::vector<float> values = RandomFloats(7 * 33, 1);
  DeviceMatrix matrix(backend, 7, 33);
  ASSERT_TRUE(backend->Upload(values.data(), matrix.view()).ok());
  ASSERT_TRUE(backend->Synchronize().ok());
  EXPECT_EQ(matrix.Read(), values);
}

void FillWritesEveryElement(Backend* backend) {
  DeviceMatrix matrix(backend, 5, 13);
  ASSERT_TRUE(backend->Fill(2.5f, matrix.view()).ok());
  EXPECT_THAT(matrix.Read(), Each(2.5f));
}

void CopyIsExact(Backend* backend) {
  const std::vector<float> values = RandomFloats(37 * 5, 3);
  const DeviceMatrix in(backend, 37, 5, values);
  const DeviceMatrix out(backend, 37, 5, std::vector<float>(values.size(), 9.0f));
  ASSERT_TRUE(backend->Copy(in.view(), out.view()).ok());
  EXPECT_EQ(out.Read(), values);
  EXPECT_EQ(in.Read(), values);
}

void HostMemoryNeedsNoUpload(Backend* backend) {
  if (!backend->uses_host_memory()) return;
  std::vector<float> host = RandomFloats(6, 1);
  ASSERT_TRUE(backend->Fill(0.5f, {host.data(), 2, 3}).ok());
  ASSERT_TRUE(backend->Synchronize().ok());
  EXPECT_THAT(host, Each(0.5f));
}

}  // namespace

std::vector<OpCase> MemoryCases() {
  return {
      {"FreshMemoryIsZero", FreshMemoryIsZero},
      {"NoMemoryAtAllIsAllowed", NoMemoryAtAllIsAllowed},
      {"TooMuchMemoryIsAnError", TooMuchMemoryIsAnError},
      {"UploadAndDownloadAreExact", UploadAndDownloadAreExact},
      {"FillWritesEveryElement", FillWritesEveryElement},
      {"CopyIsExact", CopyIsExact},
      {"HostMemoryNeedsNoUpload", HostMemoryNeedsNoUpload},
  };
}

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> all;
  for (const auto& cases :
       {MemoryCases(), GemmCases(), SumRowsCases(), ActivationCases(), DropoutCases(),
        SoftmaxCases(), SumCases(), LookupCases(), RmsNormCases(), RotateCases(), AttentionCases(),
        Conv2dCases(), PoolingCases(), NormCases(), NumberLossCases(), TransferCases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace sangam::testing
