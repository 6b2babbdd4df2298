#include "client/error_json.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/errors/error_details.h"
#include "nlohmann/json.hpp"

namespace sangam {

std::string ErrorToJson(const absl::Status& status) {
  using nlohmann::ordered_json;
  ordered_json error = {{"code", absl::StatusCodeToString(status.code())},
                        {"message", std::string(status.message())},
                        {"reason", ReasonName(status)}};
  if (const std::optional<ErrorReason> reason = ReasonOf(status);
      reason.has_value() && !reason->metadata.empty()) {
    for (const auto& [key, value] : reason->metadata) error["metadata"][key] = value;
  }
  for (const FieldViolation& violation : FieldViolationsOf(status)) {
    error["field_violations"].push_back(
        {{"field", violation.field}, {"description", violation.description}});
  }
  if (const std::optional<absl::Duration> delay = RetryDelayOf(status); delay.has_value()) {
    error["retry_delay_seconds"] = absl::ToDoubleSeconds(*delay);
  }
  const ordered_json object = {{"error", error}};
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace sangam
