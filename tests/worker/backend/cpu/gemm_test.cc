#include "worker/backend/cpu/gemm.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/device_matrix.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/tf32.h"
#include "worker/backend/precision.h"

// Of the OpenMP runtime (see gemm.cc).
extern "C" int omp_get_max_threads(void);

namespace sangam {
namespace {

using ::sangam::testing::RandomFloats;

struct Shape {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

// The products of a 784-512-512-10 network and some whose rows alias in the cache.
std::vector<Shape> Shapes() {
  return {{32, 512, 784, false, true},   {32, 784, 512, false, false}, {512, 784, 32, true, false},
          {32, 512, 512, false, false},  {512, 512, 32, true, false},  {10, 512, 32, true, false},
          {16, 1024, 700, false, false}, {256, 256, 300, true, false}, {17, 512, 9, false, false}};
}

std::vector<float> Multiply(CpuGemm* gemm, const Shape& s, bool accumulate) {
  const std::vector<float> a = RandomFloats(s.m * s.k, 1);
  const std::vector<float> b = RandomFloats(s.k * s.n, 2);
  std::vector<float> c = RandomFloats(s.m * s.n, 3);
  GemmArguments arguments;
  arguments.a = {a.data(), s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k};
  arguments.transpose_a = s.transpose_a;
  arguments.b = {b.data(), s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n};
  arguments.transpose_b = s.transpose_b;
  arguments.c = {c.data(), s.m, s.n};
  arguments.accumulate = accumulate;
  const absl::Status status = gemm->Multiply(arguments);
  EXPECT_TRUE(status.ok()) << status;
  return c;
}

std::vector<std::vector<float>> MultiplyAll(CpuGemm* gemm) {
  std::vector<std::vector<float>> results;
  for (const Shape& shape : Shapes()) {
    results.push_back(Multiply(gemm, shape, false));
    results.push_back(Multiply(gemm, shape, true));
  }
  return results;
}

TEST(CpuGemmTest, BitsDoNotDependOnEarlierProducts) {
  CpuGemm used;
  const std::vector<std::vector<float>> first = MultiplyAll(&used);
  EXPECT_EQ(MultiplyAll(&used), first);
  for (size_t i = 0; i < Shapes().size(); ++i) {
    CpuGemm fresh;
    EXPECT_EQ(Multiply(&fresh, Shapes()[i], false), first[2 * i]);
  }
}

TEST(CpuGemmTest, BitsDoNotDependOnTheThreadOrOnOtherLanes) {
  CpuGemm gemm;
  const std::vector<std::vector<float>> alone = MultiplyAll(&gemm);
  // Three lanes at once; the first one's object has moved here from the test's thread.
  std::vector<std::vector<std::vector<float>>> results(3);
  std::vector<std::thread> threads;
  threads.emplace_back([&] { results[0] = MultiplyAll(&gemm); });
  for (size_t lane = 1; lane < results.size(); ++lane) {
    threads.emplace_back([&results, lane] {
      CpuGemm own;
      results[lane] = MultiplyAll(&own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, alone);
}

std::vector<float> Tf32Of(std::vector<float> values) {
  for (float& value : values) value = cpu_kernels::RoundedToTf32(value);
  return values;
}

TEST(CpuGemmTest, Tf32IsTheProductOfRoundedFactors) {
  const std::vector<float> a = RandomFloats(33 * 65, 1);
  const std::vector<float> b = RandomFloats(65 * 17, 2);
  const auto multiply = [](Precision precision, const std::vector<float>& left,
                           const std::vector<float>& right) {
    CpuGemm gemm(precision);
    std::vector<float> c(33 * 17);
    GemmArguments arguments;
    arguments.a = {left.data(), 33, 65};
    arguments.b = {right.data(), 65, 17};
    arguments.c = {c.data(), 33, 17};
    EXPECT_TRUE(gemm.Multiply(arguments).ok());
    return c;
  };
  const std::vector<float> c = multiply(Precision::kTf32, a, b);
  EXPECT_EQ(c, multiply(Precision::kFp32, Tf32Of(a), Tf32Of(b)));
  EXPECT_NE(c, multiply(Precision::kFp32, a, b));
}

TEST(CpuGemmTest, StartsNoThreads) {
  std::atomic<int> threads{0};
  std::thread([&threads] {
    CpuGemm gemm;
    Multiply(&gemm, Shapes()[0], false);
    threads = omp_get_max_threads();
  }).join();
  EXPECT_EQ(threads, 1);
}

}  // namespace
}  // namespace sangam
