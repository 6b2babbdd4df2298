#ifndef SANGAM_COMMON_BASE_LOG_REPEATS_H_
#define SANGAM_COMMON_BASE_LOG_REPEATS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {

// Keeps a line that comes again and again from filling the log: of equal lines within a period the
// first few are written, the rest is counted. Remembers a small number of lines.
// Not thread-safe; the caller's clock.
class LogRepeats {
 public:
  struct Options {
    absl::Duration period = absl::Seconds(10);
    uint64_t written = 5;  // of equal lines in a period
    size_t lines = 32;     // remembered; the oldest is forgotten for a new one
  };
  // A line that was held back, and how often.
  struct Held {
    int level = 0;
    std::string event;
    std::string fields;
    uint64_t times = 0;
  };

  LogRepeats() : LogRepeats(Options()) {}
  explicit LogRepeats(const Options& options) : options_(options) {}

  // Whether the line is to be written. `steady`: now; never goes backwards.
  bool Take(int level, absl::string_view event, absl::string_view fields, absl::Duration steady);

  // What was held back, of the periods that are over: to be written now.
  std::vector<Held> TakeHeld(absl::Duration steady);

 private:
  struct Seen {
    Held line;  // times: that were held back
    uint64_t written = 0;
    absl::Duration until;
  };

  void Forget(size_t index);

  const Options options_;
  std::deque<Seen> seen_;   // oldest first
  std::vector<Held> held_;  // of those that were forgotten
};

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_LOG_REPEATS_H_
