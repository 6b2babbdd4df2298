#include "common/base/backoff.h"

#include <algorithm>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(BackoffTest, DoublesUpToTheMaximumWithJitterBelow) {
  Backoff backoff({absl::Milliseconds(100), absl::Seconds(1)}, 1);
  absl::Duration bound = absl::Milliseconds(100);
  for (int i = 0; i < 70; ++i) {
    const absl::Duration delay = backoff.Next();
    EXPECT_GE(delay, bound / 2) << "try " << i;
    EXPECT_LT(delay, bound + absl::Nanoseconds(1)) << "try " << i;
    bound = std::min(bound * 2, absl::Seconds(1));
  }
}

TEST(BackoffTest, ResetBeginsAgainAtTheInitialDelay) {
  Backoff backoff({absl::Milliseconds(100), absl::Seconds(10)}, 1);
  for (int i = 0; i < 5; ++i) backoff.Next();
  EXPECT_GT(backoff.Next(), absl::Milliseconds(100));
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(100));
}

TEST(BackoffTest, PeersDrawDifferentDelays) {
  Backoff one({absl::Milliseconds(100), absl::Seconds(10)}, 1);
  Backoff two({absl::Milliseconds(100), absl::Seconds(10)}, 2);
  EXPECT_NE(one.Next(), two.Next());
}

}  // namespace
}  // namespace sangam
