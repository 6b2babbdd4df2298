#include "common/base/exit_code.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace sangam {
namespace {

constexpr absl::string_view kConfigurationPayload = "sangam/configuration";

}  // namespace

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kSuccess;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return ExitCode::kUsage;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return ExitCode::kRefused;
    case absl::StatusCode::kUnavailable:
      return ExitCode::kUnavailable;
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kExhausted;
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kDeadline;
    case absl::StatusCode::kDataLoss:
      return ExitCode::kDataLoss;
    default:
      return ExitCode::kFailure;
  }
}

absl::Status OfConfiguration(absl::Status status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kOutOfRange:
      status.SetPayload(kConfigurationPayload, absl::Cord());
      break;
    default:
      break;
  }
  return status;
}

ExitCode DaemonExitCodeFor(const absl::Status& status) {
  if (status.ok()) return ExitCode::kSuccess;
  if (absl::IsDataLoss(status)) return ExitCode::kDataLoss;
  return status.GetPayload(kConfigurationPayload).has_value() ? ExitCode::kBadConfiguration
                                                              : ExitCode::kFailure;
}

std::string ClientExitCodes() {
  return "Exit codes: 0 success, 1 failure, 2 wrong usage or a job that is refused, 3 job failed, "
         "4 job cancelled, 5 not found, 6 not allowed, 7 coordinator out of reach, 8 no room, "
         "9 timeout, 65 damaged data, 130 and 143 interrupted.";
}

std::string DaemonExitCodes() {
  return "Exit codes: 143 and 130 ended in order after SIGTERM and SIGINT, 1 failure, 2 wrong "
         "command line, 65 damaged data, 78 a configuration that it cannot start with.";
}

}  // namespace sangam
