#include "client/commands/command.h"

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace sangam {
namespace {

constexpr absl::string_view kUsagePayload = "sangam/usage";

}  // namespace

absl::Status Environment::CheckInterrupt() const {
  if (interrupts() > 0) return absl::CancelledError("interrupted");
  if (console->broken()) return absl::CancelledError("nobody reads the output");
  return absl::OkStatus();
}

absl::Status UsageError(absl::string_view message) {
  return UsageError(absl::InvalidArgumentError(message));
}

absl::Status UsageError(const absl::Status& status) {
  absl::Status usage = status;
  usage.SetPayload(kUsagePayload, absl::Cord());
  return usage;
}

bool IsUsageError(const absl::Status& status) {
  return status.GetPayload(kUsagePayload).has_value();
}

}  // namespace sangam
