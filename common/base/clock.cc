#include "common/base/clock.h"

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sangam {
namespace {

class RealClock : public Clock {
 public:
  absl::Duration Steady() const override {
    return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  }
  absl::Time Wall() const override { return absl::Now(); }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock clock;
  return clock;
}

}  // namespace sangam
