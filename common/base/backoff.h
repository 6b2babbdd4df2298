#ifndef SANGAM_COMMON_BASE_BACKOFF_H_
#define SANGAM_COMMON_BASE_BACKOFF_H_

#include <cstdint>

#include "absl/time/time.h"

namespace sangam {

// Delays between tries: doubled each time up to a bound, with jitter in [1/2, 1) so that many
// peers do not come back at once. Not thread-safe; no clock and no sleep of its own.
class Backoff {
 public:
  struct Options {
    absl::Duration initial = absl::Milliseconds(50);
    absl::Duration maximum = absl::Seconds(2);
  };

  // `jitter_seed` should differ between peers, for example the process's incarnation.
  Backoff(Options options, uint64_t jitter_seed) : options_(options), seed_(jitter_seed) {}

  // How long to wait before the next try.
  absl::Duration Next();

  // After a success: the next delay is the initial one again.
  void Reset() { tries_ = 0; }

 private:
  Options options_;
  uint64_t seed_;
  uint64_t tries_ = 0;
  uint64_t draws_ = 0;
};

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_BACKOFF_H_
