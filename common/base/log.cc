#include "common/base/log.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log_json.h"
#include "common/base/log_repeats.h"
#include "common/base/mutex.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace sangam {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v";

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

spdlog::logger& Logger() {
  // Never destroyed: threads may still log while the process ends.
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("sangam", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(kTextPattern);
    made->set_level(spdlog::level::debug);  // Log looks at the level.
    return made;
  }();
  return *logger;
}

struct Observed {
  Mutex mutex;
  LogObserver* observer ABSL_GUARDED_BY(mutex) = nullptr;
};

Observed& TheObserver() {
  // Never destroyed, as the logger.
  static Observed* const observed = new Observed;
  return *observed;
}

struct Lines {
  std::atomic<LogLevel> level{LogLevel::kInfo};
  Mutex mutex;
  LogFormat format ABSL_GUARDED_BY(mutex) = LogFormat::kText;
  std::string component ABSL_GUARDED_BY(mutex);
  LogRepeats repeats ABSL_GUARDED_BY(mutex);
};

Lines& TheLines() {
  // Never destroyed, as the logger.
  static Lines* const lines = new Lines;
  return *lines;
}

// Cut where it is too long.
std::string TextOf(absl::string_view event, absl::string_view fields) {
  std::string line = fields.empty() ? std::string(event) : absl::StrCat(event, " ", fields);
  if (line.size() <= kMaxLogLineBytes) return line;
  constexpr size_t kRoomForNote = 64;
  const size_t more = line.size() - (kMaxLogLineBytes - kRoomForNote);
  line.resize(kMaxLogLineBytes - kRoomForNote);
  return absl::StrCat(line, "... (", more, " bytes more)");
}

// Returns the line as text.
std::string Write(LogLevel level, absl::string_view event, absl::string_view fields) {
  std::string text = TextOf(event, fields);
  Lines& lines = TheLines();
  std::string json;
  {
    MutexLock lock(&lines.mutex);
    if (lines.format == LogFormat::kJson) {
      json = LogLineToJson({absl::Now(), LogLevelName(level), event, fields, lines.component},
                           kMaxLogLineBytes);
    }
  }
  const std::string& line = json.empty() ? text : json;
  Logger().log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  return text;
}

void WriteObserved(LogLevel level, absl::string_view event, absl::string_view fields) {
  const std::string line = Write(level, event, fields);
  Observed& observed = TheObserver();
  MutexLock lock(&observed.mutex);
  if (observed.observer != nullptr) observed.observer->OnLine(level, line);
}

}  // namespace

void Log(LogLevel level, absl::string_view event, absl::string_view fields) {
  Lines& lines = TheLines();
  if (level < lines.level.load(std::memory_order_relaxed)) return;
  const absl::Duration now = Clock::Real().Steady();
  std::vector<LogRepeats::Held> held;
  bool written;
  {
    MutexLock lock(&lines.mutex);
    held = lines.repeats.TakeHeld(now);
    written = lines.repeats.Take(static_cast<int>(level), event, fields, now);
  }
  for (const LogRepeats::Held& line : held) {
    WriteObserved(
        static_cast<LogLevel>(line.level), line.event,
        absl::StrCat(line.fields, line.fields.empty() ? "" : " ", "repeated=", line.times));
  }
  if (written) WriteObserved(level, event, fields);
}

void LogUnobserved(LogLevel level, absl::string_view event, absl::string_view fields) {
  if (level >= CurrentLogLevel()) Write(level, event, fields);
}

void SetLogObserver(LogObserver* observer) {
  Observed& observed = TheObserver();
  MutexLock lock(&observed.mutex);
  observed.observer = observer;
}

absl::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

void SetLogLevel(LogLevel level) { TheLines().level.store(level); }

LogLevel CurrentLogLevel() { return TheLines().level.load(); }

void SetLogFormat(LogFormat format, absl::string_view component) {
  Lines& lines = TheLines();
  MutexLock lock(&lines.mutex);
  lines.format = format;
  lines.component = std::string(component);
  Logger().set_pattern(format == LogFormat::kJson ? "%v" : kTextPattern);
}

absl::Status SetLogFormat(absl::string_view name, absl::string_view component) {
  if (name != "text" && name != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("log format \"", absl::CEscape(name), "\": expected text or json"));
  }
  SetLogFormat(name == "json" ? LogFormat::kJson : LogFormat::kText, component);
  return absl::OkStatus();
}

absl::Status SetLogLevel(absl::string_view name) {
  if (name == "debug") {
    SetLogLevel(LogLevel::kDebug);
  } else if (name == "info") {
    SetLogLevel(LogLevel::kInfo);
  } else if (name == "warning") {
    SetLogLevel(LogLevel::kWarning);
  } else if (name == "error") {
    SetLogLevel(LogLevel::kError);
  } else {
    return absl::InvalidArgumentError(absl::StrCat("log level \"", absl::CEscape(name),
                                                   "\": expected debug, info, warning or error"));
  }
  return absl::OkStatus();
}

std::string LogValue(absl::string_view value) {
  bool plain = !value.empty();
  for (const char c : value) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c)) || c == '"' || c == '=') plain = false;
  }
  return plain ? std::string(value) : absl::StrCat("\"", absl::CEscape(value), "\"");
}

}  // namespace sangam
