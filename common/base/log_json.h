#ifndef SANGAM_COMMON_BASE_LOG_JSON_H_
#define SANGAM_COMMON_BASE_LOG_JSON_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {

// What stands in one line of a log.
struct LogLine {
  absl::Time time;
  absl::string_view level;      // "info"
  absl::string_view event;      // in words
  absl::string_view fields;     // "key=value key=value", values as LogValue makes them
  absl::string_view component;  // the program; left out when empty
};

// The line as one JSON object, without a newline: `ts` (RFC 3339 with nanoseconds, UTC), `level`,
// `msg`, `component`, then each field as a member of its own. Plain numbers of at most 15 digits
// are numbers, all else strings. A key that is there already gets "_" appended; words that are no
// field are together in `detail`. Longer values are cut until the line has at most `max_bytes`
// (which must leave room for some values). Always valid UTF-8.
std::string LogLineToJson(const LogLine& line, size_t max_bytes);

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_LOG_JSON_H_
