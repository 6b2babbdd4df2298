#include "client/human_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {

std::string HumanDuration(absl::Duration duration) {
  if (duration <= absl::ZeroDuration()) return "0s";
  if (duration < absl::Seconds(10)) {
    return absl::StrFormat("%.1fs", absl::ToDoubleSeconds(duration));
  }
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds < 60) return absl::StrCat(seconds, "s");
  if (seconds < 3600) return absl::StrFormat("%dm%02ds", seconds / 60, seconds % 60);
  if (seconds < 86400) return absl::StrFormat("%dh%02dm", seconds / 3600, seconds % 3600 / 60);
  return absl::StrFormat("%dd%02dh", seconds / 86400, seconds % 86400 / 3600);
}

std::string HumanSeconds(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) return "-";
  if (seconds < 0.9995e-3) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 0.09995) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds < 0.9995) return absl::StrFormat("%.0f ms", seconds * 1e3);
  return absl::StrFormat("%.1f s", seconds);
}

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  static constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string HumanCount(uint64_t count) {
  std::string digits = absl::StrCat(count);
  for (size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

std::string HumanRate(double per_second) {
  return per_second >= 100 ? absl::StrFormat("%.0f", per_second)
                           : absl::StrFormat("%.1f", per_second);
}

std::string HumanLoss(double loss) {
  const double size = std::fabs(loss);
  if (std::isfinite(loss) && size < 1000 && (size >= 0.001 || size == 0)) {
    return absl::StrFormat("%.4f", loss);
  }
  return absl::StrFormat("%.4g", loss);
}

std::string LossUnit(const v1::JobSpec& spec) {
  return spec.loss().has_token_cross_entropy() ? " nats/token" : "";
}

bool HasAccuracy(const v1::JobSpec& spec) { return !spec.loss().has_mean_squared_error(); }

uint64_t Percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return 0;
  if (part >= whole) return 100;
  return static_cast<uint64_t>(100.0L * static_cast<long double>(part) /
                               static_cast<long double>(whole));
}

uint64_t EpochsOf(uint64_t steps, uint64_t steps_per_epoch) {
  if (steps_per_epoch == 0) return 0;
  return steps / steps_per_epoch + (steps % steps_per_epoch == 0 ? 0 : 1);
}

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

bool HasEnded(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED || state == v1::CANCELLED;
}

std::string StateName(v1::JobState state) {
  const std::string name = v1::JobState_Name(state);
  return name.empty() ? absl::StrCat("state ", static_cast<int>(state)) : name;
}

std::string OneLine(absl::string_view text) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, absl::ByAnyChar("\r\n"))) {
    std::string clean;
    for (const char c : line) {
      const bool space = absl::ascii_iscntrl(static_cast<unsigned char>(c)) || c == ' ';
      if (space && (clean.empty() || clean.back() == ' ')) continue;
      clean.push_back(space ? ' ' : c);
    }
    absl::StripTrailingAsciiWhitespace(&clean);
    if (!clean.empty()) lines.push_back(clean);
  }
  return absl::StrJoin(lines, "; ");
}

std::string Printable(absl::string_view text) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) lines.push_back(OneLine(line));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return absl::StrJoin(lines, "\n");
}

}  // namespace sangam
