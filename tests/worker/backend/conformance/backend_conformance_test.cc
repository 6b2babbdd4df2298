#include "gtest/gtest.h"
#include "tests/worker/backend/conformance/backend_case_test.h"

// Every backend of the build against every case.
namespace sangam::testing {
namespace {

class BackendConformanceTest : public BackendCaseTest {};

TEST_P(BackendConformanceTest, Holds) { Verify(); }

INSTANTIATE_TEST_SUITE_P(Backends, BackendConformanceTest, AllBackendCases(), BackendCaseName);

}  // namespace
}  // namespace sangam::testing
