#ifndef SANGAM_COMMON_ERRORS_ERROR_DETAILS_H_
#define SANGAM_COMMON_ERRORS_ERROR_DETAILS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// What an error says to programs, besides its code and the message for people. It travels with the
// status, as payloads that are messages of proto/google/rpc/error_details.proto, and with a call's
// end in gRPC (common/rpc/grpc_status.h). Needs no gRPC: the core may use it. Pure.
namespace sangam {

// What a payload's URL begins with; the rest is the message's full name.
inline constexpr absl::string_view kDetailUrlPrefix = "type.googleapis.com/";

inline constexpr absl::string_view kErrorDomain = "sangam";

// Why, and the numbers of the message by name.
struct ErrorReason {
  std::string reason;  // "MEMORY_BUDGET"; docs/protocol.md lists them
  std::map<std::string, std::string> metadata;
};

// One field of a request that is wrong.
struct FieldViolation {
  std::string field;
  std::string description;
};

// `status` with the detail, in place of an earlier one of its kind. OK stays OK.
absl::Status WithReason(const absl::Status& status, absl::string_view reason,
                        const std::map<std::string, std::string>& metadata = {});
absl::Status WithFieldViolations(const absl::Status& status,
                                 const std::vector<FieldViolation>& violations);
absl::Status WithRetryDelay(const absl::Status& status, absl::Duration delay);

// What the status has of it, if it has any; malformed ones and those of other domains count as
// none.
std::optional<ErrorReason> ReasonOf(const absl::Status& status);
std::vector<FieldViolation> FieldViolationsOf(const absl::Status& status);
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

// ReasonOf, or what follows from the code alone: "NOT_FOUND".
std::string ReasonName(const absl::Status& status);

}  // namespace sangam

#endif  // SANGAM_COMMON_ERRORS_ERROR_DETAILS_H_
