#ifndef SANGAM_COMMON_BASE_LOG_H_
#define SANGAM_COMMON_BASE_LOG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

// One line per event, `key=value` pairs, to standard error. Only runtime, rpc and main log.
// INFO: a change of state. WARNING: degraded and going on. ERROR: work was lost. Never per tensor.
namespace sangam {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Writes one line. `event` is a short name in words; `fields` is "key=value key=value".
void Log(LogLevel level, absl::string_view event, absl::string_view fields);

// Lines below this level are dropped; kInfo at start. Thread-safe.
void SetLogLevel(LogLevel level);

// Accepts "debug", "info", "warning", "error".
// Errors: InvalidArgument  another word
absl::Status SetLogLevel(absl::string_view name);

// A value as it stands in a log line: quoted and escaped when it is not one plain word.
std::string LogValue(absl::string_view value);

template <typename... Args>
void LogInfo(absl::string_view event, const absl::FormatSpec<Args...>& format,
             const Args&... args) {
  Log(LogLevel::kInfo, event, absl::StrFormat(format, args...));
}
template <typename... Args>
void LogWarning(absl::string_view event, const absl::FormatSpec<Args...>& format,
                const Args&... args) {
  Log(LogLevel::kWarning, event, absl::StrFormat(format, args...));
}
template <typename... Args>
void LogError(absl::string_view event, const absl::FormatSpec<Args...>& format,
              const Args&... args) {
  Log(LogLevel::kError, event, absl::StrFormat(format, args...));
}

}  // namespace sangam

#endif  // SANGAM_COMMON_BASE_LOG_H_
