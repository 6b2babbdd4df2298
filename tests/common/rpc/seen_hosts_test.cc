#include "common/rpc/seen_hosts.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(SeenHostsTest, SpeaksOfEachHostOnceAPeriod) {
  SeenHosts hosts(absl::Hours(1), 10);
  const absl::Duration start = absl::Hours(5);
  EXPECT_TRUE(hosts.Take("a", start));
  EXPECT_FALSE(hosts.Take("a", start + absl::Minutes(30)));
  EXPECT_TRUE(hosts.Take("b", start + absl::Minutes(30)));
  // The hour counts from when it was spoken of, not from its last visit.
  EXPECT_TRUE(hosts.Take("a", start + absl::Minutes(60)));
  EXPECT_FALSE(hosts.Take("b", start + absl::Minutes(60)));
  EXPECT_TRUE(hosts.Take("b", start + absl::Minutes(90)));
}

TEST(SeenHostsTest, ForgetsTheOldestBeyondItsNumber) {
  SeenHosts hosts(absl::Hours(1), 2);
  EXPECT_TRUE(hosts.Take("a", absl::ZeroDuration()));
  EXPECT_TRUE(hosts.Take("b", absl::ZeroDuration()));
  EXPECT_TRUE(hosts.Take("c", absl::ZeroDuration()));
  EXPECT_FALSE(hosts.Take("b", absl::ZeroDuration()));
  EXPECT_FALSE(hosts.Take("c", absl::ZeroDuration()));
  EXPECT_TRUE(hosts.Take("a", absl::ZeroDuration()));
}

}  // namespace
}  // namespace sangam
