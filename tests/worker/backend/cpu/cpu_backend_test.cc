#include "worker/backend/cpu/cpu_backend.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/backend/backend.h"

namespace sangam {
namespace {

// The operations are tested by the conformance test.
TEST(CpuBackendTest, WorksOnHostMemoryAtOnce) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend();
  EXPECT_EQ(backend->name(), "cpu");
  EXPECT_TRUE(backend->uses_host_memory());
  // No upload, no Synchronize.
  const std::vector<float> a = {1, 2, 3, 4};
  const std::vector<float> b = {1, 1, 0, 1};
  const std::vector<float> bias = {-5, 10};
  std::vector<float> c(4);
  GemmArguments arguments;
  arguments.a = {a.data(), 2, 2};
  arguments.b = {b.data(), 2, 2};
  arguments.c = {c.data(), 2, 2};
  arguments.bias = {bias.data(), 1, 2};
  arguments.epilogue = Epilogue::kBiasRelu;
  ASSERT_TRUE(backend->Gemm(arguments).ok());
  EXPECT_EQ(c, (std::vector<float>{0, 13, 0, 17}));
}

TEST(CpuBackendTest, MemoryOutlivesNothingElse) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend();
  auto first = backend->Allocate(100);
  auto second = backend->Allocate(100);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE((*first)->data(), (*second)->data());
  first->reset();
  ASSERT_TRUE(backend->Fill(1.0f, {(*second)->data(), 1, 100}).ok());
  EXPECT_EQ((*second)->data()[99], 1.0f);
}

}  // namespace
}  // namespace sangam
