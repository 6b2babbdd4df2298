#include "worker/runtime/speed_probe.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

TEST(SpeedProbeTest, MeasuresAPlausibleSpeed) {
  // The second one has memory of its own.
  for (const char* backend : {"cpu", "lazy"}) {
    const absl::StatusOr<double> speed = MeasureFlopsPerSecond(backend, 0, absl::Milliseconds(10));
    ASSERT_TRUE(speed.ok()) << speed.status();
    EXPECT_GT(*speed, 1e7);
    EXPECT_LT(*speed, 1e15);
  }
}

TEST(SpeedProbeTest, UnknownBackendIsRefused) {
  EXPECT_EQ(MeasureFlopsPerSecond("gpu9", 0, absl::Milliseconds(10)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sangam
