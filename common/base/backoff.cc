#include "common/base/backoff.h"

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "common/base/philox.h"

namespace sangam {

absl::Duration Backoff::Next() {
  // 2^20 times any sensible initial delay is beyond any sensible maximum.
  const uint64_t doublings = std::min<uint64_t>(tries_, 20);
  const absl::Duration bound =
      std::min(options_.maximum, options_.initial * static_cast<int64_t>(uint64_t{1} << doublings));
  const uint32_t bits =
      Philox4x32({static_cast<uint32_t>(draws_), 0, 0, 0},
                 {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)})[0];
  ++tries_;
  ++draws_;
  return bound * (0.5 + 0.5 * static_cast<double>(ToUnitFloat(bits)));
}

}  // namespace sangam
