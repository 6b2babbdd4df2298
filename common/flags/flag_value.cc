#include "common/flags/flag_value.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sangam {
namespace {

constexpr std::array<std::pair<absl::string_view, uint64_t>, 9> kUnits = {{
    {"B", 1},
    {"kB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"KiB", uint64_t{1} << 10},
    {"MiB", uint64_t{1} << 20},
    {"GiB", uint64_t{1} << 30},
    {"TiB", uint64_t{1} << 40},
}};

}  // namespace

absl::Status MalformedValue(absl::string_view found, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("found '", found, "', expected ", expected));
}

absl::StatusOr<uint64_t> ParseCount(absl::string_view value, uint64_t minimum, uint64_t maximum) {
  uint64_t number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= minimum && number <= maximum) return number;
  if (maximum == std::numeric_limits<uint64_t>::max()) {
    return MalformedValue(value, absl::StrCat("a whole number, at least ", minimum));
  }
  return MalformedValue(value, absl::StrCat("a whole number from ", minimum, " to ", maximum));
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view value) {
  size_t digits = value.size();
  while (digits > 0 && absl::ascii_isalpha(static_cast<unsigned char>(value[digits - 1]))) --digits;
  const absl::string_view unit = value.substr(digits);
  const absl::string_view number = value.substr(0, digits);
  uint64_t scale = unit.empty() ? 1 : 0;
  for (const auto& [name, size] : kUnits) {
    if (unit == name) scale = size;
  }
  uint64_t whole = 0;
  if (scale > 0 && absl::SimpleAtoi(number, &whole)) {
    if (whole <= std::numeric_limits<uint64_t>::max() / scale) return whole * scale;
  } else if (scale > 1) {
    double part = 0;
    // Below 2^63 every double converts.
    if (absl::SimpleAtod(number, &part) && part >= 0 &&
        part * static_cast<double>(scale) < 0x1p63) {
      return static_cast<uint64_t>(std::llround(part * static_cast<double>(scale)));
    }
  }
  return MalformedValue(value, "bytes such as 1500000, 512MiB or 2GiB");
}

std::string FormatBytes(uint64_t bytes) {
  absl::string_view unit;
  uint64_t scale = 1;
  for (const auto& [name, size] : kUnits) {
    // Powers of 1024 come last.
    if (size % 1024 == 0 && bytes > 0 && bytes % size == 0) {
      unit = name;
      scale = size;
    }
  }
  return absl::StrCat(bytes / scale, unit);
}

absl::StatusOr<double> ParseReal(absl::string_view value, double minimum, double maximum) {
  double number = 0;
  // A NaN is in no range.
  if (absl::SimpleAtod(value, &number) && number >= minimum && number <= maximum) return number;
  return MalformedValue(value, absl::StrCat("a number from ", minimum, " to ", maximum));
}

absl::StatusOr<absl::Duration> ParseTime(absl::string_view value, absl::Duration minimum,
                                         absl::Duration maximum) {
  absl::Duration duration;
  if (!absl::ParseDuration(value, &duration) || duration <= absl::ZeroDuration() ||
      duration == absl::InfiniteDuration()) {
    return MalformedValue(value, "a time such as 30s, 250ms or 1m30s");
  }
  if (duration < minimum || duration > maximum) {
    return MalformedValue(value, absl::StrCat("a time from ", absl::FormatDuration(minimum), " to ",
                                              absl::FormatDuration(maximum)));
  }
  return duration;
}

absl::StatusOr<bool> ParseSwitch(absl::string_view value) {
  if (value == "true" || value == "1") return true;
  if (value == "false" || value == "0") return false;
  return MalformedValue(value, "true or false");
}

}  // namespace sangam
