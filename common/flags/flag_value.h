#ifndef SANGAM_COMMON_FLAGS_FLAG_VALUE_H_
#define SANGAM_COMMON_FLAGS_FLAG_VALUE_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Values of flags as people write them. Pure. Every error is InvalidArgument and says what was
// found and what was expected.
namespace sangam {

absl::Status MalformedValue(absl::string_view found, absl::string_view expected);

// A whole number in [minimum, maximum].
absl::StatusOr<uint64_t> ParseCount(absl::string_view value, uint64_t minimum,
                                    uint64_t maximum = std::numeric_limits<uint64_t>::max());

// Bytes: a whole number, alone or with one of the units B, kB, MB, GB, TB (powers of 1000) and KiB,
// MiB, GiB, TiB (powers of 1024); in front of a unit a fraction is allowed ("1.5GiB").
absl::StatusOr<uint64_t> ParseBytes(absl::string_view value);

// So that ParseBytes gives the same again: "2GiB", "1500".
std::string FormatBytes(uint64_t bytes);

// A real number in [minimum, maximum]; never NaN.
absl::StatusOr<double> ParseReal(absl::string_view value, double minimum, double maximum);

// "30s", "1m30s", "250ms": in [minimum, maximum], > 0 and finite.
absl::StatusOr<absl::Duration> ParseTime(absl::string_view value,
                                         absl::Duration minimum = absl::ZeroDuration(),
                                         absl::Duration maximum = absl::InfiniteDuration());

// "true" or "1", "false" or "0".
absl::StatusOr<bool> ParseSwitch(absl::string_view value);

}  // namespace sangam

#endif  // SANGAM_COMMON_FLAGS_FLAG_VALUE_H_
