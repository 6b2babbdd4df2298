#include "worker/backend/cuda/lookup_sort.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "cuda_on_cpu/control.h"
#include "gtest/gtest.h"
#include "tests/worker/backend/cuda/kernel_runs.h"

namespace sangam::cuda_kernels {
namespace {

std::vector<TokenRow> RandomRows(int64_t count, unsigned largest) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<TokenRow> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.push_back(
        {static_cast<unsigned>(random() % (uint64_t{largest} + 1)), static_cast<unsigned>(i)});
  }
  return rows;
}

std::vector<TokenRow> Sorted(const std::vector<TokenRow>& rows, unsigned largest) {
  const auto count = static_cast<int64_t>(rows.size());
  const DeviceBytes scratch(SortTokensScratchBytes(count));
  const size_t bytes = rows.size() * sizeof(TokenRow);
  EXPECT_EQ(cudaMemcpy(TokensToSort(scratch.data()), rows.data(), bytes, cudaMemcpyHostToDevice),
            cudaSuccess);
  const TokenRow* const sorted = SortTokens(nullptr, count, largest, scratch.data());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  std::vector<TokenRow> result(rows.size());
  EXPECT_EQ(cudaMemcpy(result.data(), sorted, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  return result;
}

TEST(CudaLookupSortTest, KeepsTheOrderOfEqualTokens) {
  for (const int64_t count : {1, 31, 32, 33, 255, 257, 2048, 2049, 9000}) {
    for (const unsigned largest : {0u, 5u, 255u, 256u, 70000u, 0x7FFFFFFFu}) {
      const std::vector<TokenRow> rows = RandomRows(count, largest);
      std::vector<TokenRow> expected = rows;
      std::stable_sort(expected.begin(), expected.end(),
                       [](const TokenRow& a, const TokenRow& b) { return a.token < b.token; });
      for (const auto order : {cuda_on_cpu::Order::kForward, cuda_on_cpu::Order::kReverse,
                               cuda_on_cpu::Order::kRandom}) {
        cuda_on_cpu::SetOrder(order, 3);
        const std::vector<TokenRow> found = Sorted(rows, largest);
        for (size_t i = 0; i < found.size(); ++i) {
          ASSERT_EQ(found[i].token, expected[i].token) << count << " " << largest << " " << i;
          ASSERT_EQ(found[i].row, expected[i].row) << count << " " << largest << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
