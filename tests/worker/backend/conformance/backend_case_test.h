#ifndef SANGAM_TESTS_WORKER_BACKEND_CONFORMANCE_BACKEND_CASE_TEST_H_
#define SANGAM_TESTS_WORKER_BACKEND_CONFORMANCE_BACKEND_CASE_TEST_H_

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/worker/backend/conformance/op_cases.h"
#include "worker/backend/backend.h"
#include "worker/backend/backends.h"

namespace sangam::testing {

// A test of each backend of the program with each case; skipped where the machine lacks the
// backend's device.
class BackendCaseTest : public ::testing::TestWithParam<std::tuple<std::string, OpCase>> {
 protected:
  void SetUp() override {
    auto backend = CreateBackend(std::get<0>(GetParam()));
    if (absl::IsFailedPrecondition(backend.status())) GTEST_SKIP() << backend.status();
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }

  void Verify() { std::get<1>(GetParam()).verify(backend_.get()); }

  std::unique_ptr<Backend> backend_;
};

inline auto AllBackendCases() {
  return ::testing::Combine(::testing::ValuesIn(BackendNames()), ::testing::ValuesIn(AllOpCases()));
}

inline std::string BackendCaseName(
    const ::testing::TestParamInfo<BackendCaseTest::ParamType>& info) {
  return absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param).name);
}

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_BACKEND_CONFORMANCE_BACKEND_CASE_TEST_H_
