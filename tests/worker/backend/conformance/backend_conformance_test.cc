#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"

// Every backend of the build against every case.
namespace sangam::testing {
namespace {

class BackendConformanceTest : public ::testing::TestWithParam<std::tuple<std::string, OpCase>> {};

TEST_P(BackendConformanceTest, Holds) {
  const auto& [name, op_case] = GetParam();
  const auto backend = CreateBackend(name);
  if (absl::IsFailedPrecondition(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  op_case.verify(backend->get());
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendConformanceTest,
                         ::testing::Combine(::testing::ValuesIn(BackendNames()),
                                            ::testing::ValuesIn(AllOpCases())),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "_",
                                               std::get<1>(info.param).name);
                         });

}  // namespace
}  // namespace sangam::testing
