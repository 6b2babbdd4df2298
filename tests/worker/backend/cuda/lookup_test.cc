#include "worker/backend/cuda/lookup.h"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "tests/worker/backend/cuda/kernel_runs.h"
#include "worker/backend/cpu/embedding.h"

namespace sangam::cuda_kernels {
namespace {

using ::sangam::testing::RandomFloats;

struct Example {
  int64_t count, table_rows, cols;
  bool one_token = false;

  std::vector<float> tokens() const {
    std::vector<float> tokens = RandomFloats(count, 1, 0, static_cast<float>(table_rows));
    for (float& token : tokens) {
      token = one_token ? static_cast<float>(table_rows - 1) : std::floor(token);
    }
    return tokens;
  }
};

const std::vector<Example> kExamples = {{1, 1, 1},          {7, 3, 5},        {33, 7, 32},
                                        {31, 300, 33},      {300, 70000, 36}, {5000, 1000, 3},
                                        {2049, 5, 8, true}, {40, 4, 1100}};

// In device memory, cleared.
class DeviceBadToken {
 public:
  DeviceBadToken() { EXPECT_EQ(cudaMemset(bytes_.data(), 0, sizeof(BadToken)), cudaSuccess); }
  BadToken* get() const { return static_cast<BadToken*>(bytes_.data()); }
  BadToken Read() const {
    BadToken token;
    EXPECT_EQ(cudaMemcpy(&token, get(), sizeof(token), cudaMemcpyDeviceToHost), cudaSuccess);
    return token;
  }

 private:
  DeviceBytes bytes_{sizeof(BadToken)};
};

TEST(CudaLookupTest, LooksUp) {
  for (const Example& e : kExamples) {
    const std::vector<float> tokens = e.tokens();
    const std::vector<float> table = RandomFloats(e.table_rows * e.cols, 2);
    std::vector<float> expected(static_cast<size_t>(e.count * e.cols));
    ASSERT_TRUE(cpu_kernels::Lookup({tokens.data(), e.count, 1},
                                    {table.data(), e.table_rows, e.cols}, expected.data())
                    .ok());
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats of_tokens(tokens, offset);
                const DeviceFloats of_table(table, offset);
                const DeviceFloats out(e.count * e.cols, offset);
                const DeviceBadToken bad;
                EXPECT_EQ(Lookup(nullptr, {of_tokens.data(), 1, e.count},
                                 {of_table.data(), e.table_rows, e.cols}, 1, bad.get(), out.data()),
                          cudaSuccess);
                EXPECT_EQ(bad.Read().call, 0u);
                return out.Read();
              }),
              expected);
  }
}

// In the order of the rows, so exact.
TEST(CudaLookupTest, AddsGradients) {
  for (const Example& e : kExamples) {
    const std::vector<float> tokens = e.tokens();
    const std::vector<float> dy = RandomFloats(e.count * e.cols, 2);
    const std::vector<float> before = RandomFloats(e.table_rows * e.cols, 3);
    std::vector<float> expected = before;
    ASSERT_TRUE(cpu_kernels::LookupBackward({tokens.data(), e.count, 1},
                                            {dy.data(), e.count, e.cols},
                                            {expected.data(), e.table_rows, e.cols})
                    .ok());
    EXPECT_EQ(SameInAllRuns([&](int64_t offset) {
                const DeviceFloats of_tokens(tokens, offset);
                const DeviceFloats of_dy(dy, offset);
                const DeviceFloats gradient(before, offset);
                const DeviceBytes scratch(LookupBackwardScratchBytes(e.count));
                const DeviceBadToken bad;
                EXPECT_EQ(LookupBackward(nullptr, {of_tokens.data(), e.count, 1},
                                         {of_dy.data(), e.count, e.cols}, 1, bad.get(),
                                         scratch.data(), {gradient.data(), e.table_rows, e.cols}),
                          cudaSuccess);
                EXPECT_EQ(bad.Read().call, 0u);
                return gradient.Read();
              }),
              expected);
  }
}

TEST(CudaLookupTest, TheFirstBadTokenOfTheFirstCallIsKept) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float token : {3.0f, -1.0f, 0.5f, infinity, -infinity, std::nanf("")}) {
    // Where threads go backwards, the later ones come first.
    SameInAllRuns([token](int64_t offset) {
      std::vector<float> tokens(600, 1.0f);
      tokens[299] = token;
      tokens[400] = tokens[599] = 17.0f;
      const DeviceFloats of_tokens(tokens, offset);
      const DeviceFloats ones(std::vector<float>(6, 1.0f), offset);
      const DeviceFloats out(1200, offset);
      const DeviceBadToken bad;
      const ConstMatrix all(of_tokens.data(), 600, 1);
      EXPECT_EQ(Lookup(nullptr, all, {ones.data(), 3, 2}, 5, bad.get(), out.data()), cudaSuccess);
      // A call that fails at an earlier token does not count any more.
      EXPECT_EQ(
          Lookup(nullptr, {of_tokens.data(), 1, 1}, {ones.data(), 1, 2}, 6, bad.get(), out.data()),
          cudaSuccess);
      const BadToken found = bad.Read();
      EXPECT_EQ(found.call, 5u);
      EXPECT_EQ(found.backward, 0u);
      EXPECT_EQ(found.table_rows, 3);
      EXPECT_EQ(found.index(), 299);
      EXPECT_TRUE(found.value() == token || (std::isnan(token) && std::isnan(found.value())));
      const std::vector<float> rows = out.Read();
      EXPECT_EQ(rows[2 * 298], 1.0f);
      EXPECT_EQ(rows[2 * 299], 0.0f);

      const DeviceFloats dy(std::vector<float>(1200, 1.0f), offset);
      const DeviceBytes scratch(LookupBackwardScratchBytes(600));
      const DeviceBadToken bad_backward;
      EXPECT_EQ(LookupBackward(nullptr, all, {dy.data(), 600, 2}, 7, bad_backward.get(),
                               scratch.data(), {ones.data(), 3, 2}),
                cudaSuccess);
      EXPECT_EQ(bad_backward.Read().call, 7u);
      EXPECT_EQ(bad_backward.Read().backward, 1u);
      EXPECT_EQ(bad_backward.Read().index(), 299);
      EXPECT_EQ(ones.Read(), (std::vector<float>{1, 1, 598, 598, 1, 1}));
      return std::vector<float>{static_cast<float>(found.index())};
    });
  }
}

}  // namespace
}  // namespace sangam::cuda_kernels
