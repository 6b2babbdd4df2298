#ifndef SANGAM_TESTS_WORKER_BACKEND_COUNTING_BACKEND_H_
#define SANGAM_TESTS_WORKER_BACKEND_COUNTING_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/stub_backend.h"
#include "worker/backend/backend.h"
#include "worker/backend/views.h"

// For tests of the checks that all backends share. The backend behind them only counts what gets
// through.
namespace sangam::testing {

class CountingBackend : public StubBackend {
 public:
  absl::string_view name() const override { return "counting"; }

  int calls = 0;

 protected:
  absl::StatusOr<std::unique_ptr<BackendMemory>> DoAllocate(int64_t) override {
    ++calls;
    return absl::ResourceExhaustedError("none here");
  }
  absl::Status Answer() override {
    ++calls;
    return absl::OkStatus();
  }
};

class CountingBackendTest : public ::testing::Test {
 protected:
  void ExpectRefused(const absl::Status& status, const std::string& message) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(message));
    EXPECT_EQ(backend_.calls, 0);
  }
  void ExpectPassed(const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(backend_.calls, 1);
    backend_.calls = 0;
  }
  void ExpectNothingToDo(const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(backend_.calls, 0);
  }

  // A matrix somewhere in one array, so that overlaps can be made.
  Matrix At(int64_t first, int64_t rows, int64_t cols) {
    return {memory_.data() + first, rows, cols};
  }

  std::vector<float> memory_ = std::vector<float>(1000);
  CountingBackend backend_;
};

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_BACKEND_COUNTING_BACKEND_H_
