#ifndef SANGAM_COMMON_BASE_LOG_H_
#define SANGAM_COMMON_BASE_LOG_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

// One line per event, `key=value` pairs, to standard error. Only runtime, rpc and main log.
// Of equal lines in short order the first few are written, the rest is counted: "... repeated=312".
// A line has at most kMaxLogLineBytes.
// INFO: a change of state. WARNING: degraded and going on. ERROR: work was lost. Never per tensor.
namespace sangam {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// kText: time, level, event, fields. kJson: one object a line (log_json.h).
enum class LogFormat { kText, kJson };

inline constexpr size_t kMaxLogLineBytes = size_t{8} * 1024;

// Writes one line. `event` is a short name in words; `fields` is "key=value key=value".
void Log(LogLevel level, absl::string_view event, absl::string_view fields);

// As Log, for what the LogObserver need not see.
void LogUnobserved(LogLevel level, absl::string_view event, absl::string_view fields);

// Sees every line that is written, as text whatever the format is. Called by whichever thread logs,
// one at a time; must not log.
class LogObserver {
 public:
  virtual ~LogObserver() = default;
  virtual void OnLine(LogLevel level, absl::string_view line) = 0;
};

// The only observer from now on; nullptr: none. When this returns the one before is called no more.
void SetLogObserver(LogObserver* observer);

// The observer as long as this lives.
class ObserveLog {
 public:
  explicit ObserveLog(LogObserver* observer) { SetLogObserver(observer); }
  ~ObserveLog() { SetLogObserver(nullptr); }
  ObserveLog(const ObserveLog&) = delete;
  ObserveLog& operator=(const ObserveLog&) = delete;
};

// "info", "warning", "error" or "debug".
absl::string_view LogLevelName(LogLevel level);

// Lines below this level are dropped; kInfo at start. Thread-safe.
void SetLogLevel(LogLevel level);

// Accepts "debug", "info", "warning", "error".
// Errors: InvalidArgument  another word
absl::Status SetLogLevel(absl::string_view name);

// The level that SetLogLevel set last.
LogLevel CurrentLogLevel();

// kText at start. `component`: the program's name, for JSON lines. Thread-safe.
void SetLogFormat(LogFormat format, absl::string_view component);

// Accepts "text" and "json".
// Errors: InvalidArgument  another word
absl::Status SetLogFormat(absl::string_view name, absl::string_view component);

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
