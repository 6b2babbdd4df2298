#include <cstdint>

#include "gtest/gtest.h"
#include "tests/worker/backend/conformance/backend_case_test.h"
#include "worker/backend/backend.h"

// Every backend of the program that links this against every case, with operations that are asked
// for in sequences: all of it several times, so that a backend that keeps what it was asked for
// before gives it to its device in one piece.
namespace sangam::testing {
namespace {

// Most cases fit. Where all of it was given back it is given away again in the same way: the
// operations of one time have the addresses of the next.
constexpr int64_t kReservedElements = int64_t{1} << 18;
// New, recorded, known.
constexpr int kTimes = 3;

class SequenceConformanceTest : public BackendCaseTest {};

TEST_P(SequenceConformanceTest, Holds) {
  ASSERT_TRUE(backend_->Reserve(kReservedElements).ok());
  for (int time = 0; time < kTimes; ++time) {
    backend_->BeginSequence();
    Verify();
    ASSERT_TRUE(backend_->EndSequence().ok());
    if (HasFailure()) FAIL() << "time " << time;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SequenceConformanceTest, AllBackendCases(), BackendCaseName);

}  // namespace
}  // namespace sangam::testing
