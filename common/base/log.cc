#include "common/base/log.h"

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace sangam {
namespace {

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
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
    made->set_level(spdlog::level::info);
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

std::string Write(LogLevel level, absl::string_view event, absl::string_view fields) {
  std::string line = fields.empty() ? std::string(event) : absl::StrCat(event, " ", fields);
  Logger().log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  return line;
}

}  // namespace

void Log(LogLevel level, absl::string_view event, absl::string_view fields) {
  if (!Logger().should_log(ToSpdlog(level))) return;
  const std::string line = Write(level, event, fields);
  Observed& observed = TheObserver();
  MutexLock lock(&observed.mutex);
  if (observed.observer != nullptr) observed.observer->OnLine(level, line);
}

void LogUnobserved(LogLevel level, absl::string_view event, absl::string_view fields) {
  Write(level, event, fields);
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

void SetLogLevel(LogLevel level) { Logger().set_level(ToSpdlog(level)); }

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
