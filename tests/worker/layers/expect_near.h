#ifndef SANGAM_TESTS_WORKER_LAYERS_EXPECT_NEAR_H_
#define SANGAM_TESTS_WORKER_LAYERS_EXPECT_NEAR_H_

#include <cstddef>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/reference_ops.h"

namespace sangam::testing {

// Element by element within `tolerance`, absolute.
inline void ExpectNear(const std::vector<float>& actual, const Values& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
  }
}

}  // namespace sangam::testing

#endif  // SANGAM_TESTS_WORKER_LAYERS_EXPECT_NEAR_H_
